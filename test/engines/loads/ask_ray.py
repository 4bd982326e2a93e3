"""Work for four workers, and an object in the store that outlives this client."""
import sys

import ray

ray.init(address=sys.argv[1], log_to_driver=False)


@ray.remote(num_cpus=0.5)
def part(number):
    held = bytearray(40 << 20)
    held[::4096] = b"x" * len(held[::4096])
    return len(held) + number


assert sum(ray.get([part.remote(n) for n in range(12)], timeout=120)) == 12 * (40 << 20) + 66
ray.shutdown()
