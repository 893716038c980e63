"""The console: one page that shows what a warehouse does, and the files that it is made of.

Its own sources are TypeScript in the folder ``console`` of the project; ``hatch_build.py`` bundles them into the folder
``assets`` here, which is part of the wheel.

- ``assets``: the bundled files, as a server hands them out
"""
