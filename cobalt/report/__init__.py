"""Report: evaluated rows and what was found in them go in, pages, charts and tables come out.

The folder of `cobalt report`: `inputs` (which files), `build` (the report as a whole), `tables`, `charts`,
`trajectories` (data of the viewer in `static/`). The result of `cobalt run`: `results` (`results.json`),
`run_tables` (the same in words and tables, also on the terminal). `render` makes both pages.
"""
