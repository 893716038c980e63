"""Background builds: a view that is filled in slices while changes go on, and then swapped in.

``sliceable``      which views can be built so, and the tables that a build feeds them from
``build``          one build: slices, changes that came meanwhile, and how far it is
``handover``       the state of a built view, taken over by the warehouse in one short commit
``builds``         all builds of a warehouse: the thread that drives them, pause, resume, cancel
``handle``         what Python users see of them
"""
