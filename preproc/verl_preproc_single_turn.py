"""Turn tasks into the Parquet files that verl trains on."""

from cobalt.cli import run_main
from cobalt.contexts.parquet import main_single_turn

if __name__ == "__main__":
    run_main(main_single_turn)
