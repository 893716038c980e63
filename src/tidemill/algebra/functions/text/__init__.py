"""Functions of texts and bytes.

- ``strings``: text functions
- ``binary``: bytes: texts encoded and decoded, hexadecimal digits, Base64
- ``text_parts``: pieces of text, masks and check digits
- ``format_strings``: values in the places of a pattern, as Java's Formatter writes them
- ``sentences``: the words of each sentence
- ``similarity``: edit distance and sounds
- ``urls``: parts of URLs, and their encoding
- ``collations``: keys by which texts with a collation are compared
- ``encryption``: AES
- ``hashes``: CRC32, HASH, XXHASH64 and HMAC
- ``hash_registers``: hashes as entries of the registers of HyperLogLog
- ``regexp``: LIKE, RLIKE and the REGEXP_ functions
- ``java_regex``: translation of Java's regular expressions to RE2
"""
