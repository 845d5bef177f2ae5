"""What the group coordinator writes into ``__consumer_offsets``: bytes to groups, one module a kind of group.

``schema`` reads tables of fields, ``embedded`` what consumers put into classic records. ``classic`` and
``consumer`` hold a kind each: its layouts, how its records change it, its full view. ``records`` knows all types of
records, ``groups`` all kinds. Pure.
"""
