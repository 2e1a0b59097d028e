"""Report: evaluated rows and what was found in them go in, pages, charts and tables come out.

The folder of `cobalt report`: `inputs` (which files), `build` (the report as a whole), `trajectories` (data
of the viewer in `static/`). The result of `cobalt run`: `results` (`results.json`). Of both: `tables` (also
on a terminal), `charts`, and `render`, which makes the pages.
"""
