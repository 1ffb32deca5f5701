"""`python -m anylayer`: the command line, where the command `anylayer` is not on the PATH."""

from anylayer.cli import main

if __name__ == "__main__":
    main(prog_name="anylayer")
