"""Tests of OQL: translation, answers beside a direct interpreter, and views that follow events of objects."""
