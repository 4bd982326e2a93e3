"""Work for two workers: many small tasks, and results that stay in their memory."""
import sys

from distributed import Client, wait


def part(number):
    return bytes([number % 256]) * (16 << 20)


with Client(sys.argv[1], timeout=60) as client:
    client.wait_for_workers(2, timeout=60)
    parts = client.map(part, range(10), pure=False)
    wait(parts, timeout=60)
    sizes = client.gather(client.map(len, parts))
    if sum(sizes) != 160 << 20:
        sys.exit(f"the workers answered {sizes}")
    for future in parts:
        # They stay when this client goes.
        client.publish_dataset(**{future.key: future})
