"""`python -m kinema` is `kinema`."""

from kinema.apps.cli import main

if __name__ == "__main__":
    main()
