"""Timelines: what every rank of a job did when, in one Chrome trace. See docs/timeline.md.

`part` reads what a rank's engine has recorded, `clock` aligns the ranks' clocks, `lanes` and
`steps` make events of it and `merge` puts all ranks into one file. `recording` starts and ends
it in a rank. None of them needs more than the standard library.
"""

from __future__ import annotations
