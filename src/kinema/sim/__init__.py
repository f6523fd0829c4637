"""L3: the algorithms, once, over scalars; the programs traced from them; and what runs those."""
