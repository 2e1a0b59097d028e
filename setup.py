"""What pyproject.toml cannot say: verl/config travels in the wheel as cobalt/training/verl_config.

Its files are edited and documented in verl/config. A wheel must not install a folder named verl: it would
hide the library of that name.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConfig(build_py):
    """Copies the training configuration beside its reader; an editable install reads it in place."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "cobalt", "training", "verl_config")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(__file__).parent / "verl" / "config", target)


setup(cmdclass={"build_py": BuildWithConfig})
