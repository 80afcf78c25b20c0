"""Every table and figure of the paper, one module each; `noisewise reproduce ITEM` runs them."""
