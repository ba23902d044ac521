"""One step of the HLHE discretisation, in Python that Numba compiles and that Spark ships to executors by value.

It imports nothing, so that an executor without keyshift can run it.
"""


def representative(x: float, deviation: float, degree: float, top: float) -> float:
    """What stands for x, in units of the smallest positive value, when values come in descending order.

    Representatives are top = s*R, ..., 2R, R, R/2, ..., 2, 1. Of the one below (or at) x and the one above it, take the
    one that leaves the smaller accumulated deviation; ties go below. Zero stays zero; nothing goes above `top`.
    """
    if x >= top:
        return top
    if x == 0.0:
        return 0.0
    if x >= degree:
        low = x // degree * degree
        high = low + degree
    else:
        low = 1.0
        while 2.0 * low <= x:
            low *= 2.0
        high = 2.0 * low
    return high if abs(deviation + x - high) < abs(deviation + x - low) else low
