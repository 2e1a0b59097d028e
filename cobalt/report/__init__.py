"""Report: evaluated rows and what was found in them go in, pages, charts and tables come out.

The folder of `cobalt report`: `inputs` (which files), `build` (the report as a whole), `tables`, `charts`
(and `drawing`, how they look), `trajectories` (data of the viewer in `static/`). The result of `cobalt run`:
`paired_arms` (`results.json`, with dialogues chosen by `examples`), `run_tables`, `console` (on the
terminal). `render` makes both pages.
"""
