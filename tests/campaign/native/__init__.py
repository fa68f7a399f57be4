"""The native driver: operations of the compiled core, compared with recomputation."""
