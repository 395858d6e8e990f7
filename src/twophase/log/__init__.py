"""The decision log: which committables of which batch are to be committed, whatever crashes."""
