"""The native runtime compiled: statements and maps as LLVM code for this machine."""
