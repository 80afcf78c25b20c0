"""One module per table and figure of the paper: `noisewise reproduce --list` names them."""
