"""How old what is shown may be: the signs of life that each long-running part leaves, and what follows from them.

Pure, as :mod:`streaming.monitor` is: signs and the time go in, what is true now comes out.
"""
