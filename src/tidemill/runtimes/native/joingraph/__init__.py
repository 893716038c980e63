"""The join graph in its generic form: vertex values, join tuples, projected tuples and paths as Python objects.

The modules are those of GraphIVM, one file each:

============== =======================================================================================
structure      the graph itself and its three indices
filtering      the base diff filter: what a change does to each join tuple of a member (algorithm 1)
maintenance    diffs become changes of the graph (algorithms 2 to 4)
lookahead      what is known of a join tuple before it is followed (section 7.1)
routes         in which order a walk from a member comes to all others
walking        breadth-first search over complete paths
viewdiffs      what the view gains and loses along the paths (algorithm 5)
materialize    all rows of the view, from the smallest member on (algorithm 6)
compile        the product of the projected tuples of a path, and the filters on paths, as generated functions
stages         which stages walk, and a change of an input on its way through their graphs
============== =======================================================================================
"""
