"""L3: a description becomes a model of flat arrays, by an ordered list of passes."""

from .passes import Part as Part, compile_model as compile_model
