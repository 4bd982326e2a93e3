"""What a notebook's user does with a kernel: a file that is larger than its entitlement is read,
much memory is used for less than half a second, and some of it is kept."""
import sys

from jupyter_client import BlockingKernelClient

CELLS = [
    "with open('data', 'wb') as file:\n    for _ in range(600): file.write(bytes(1 << 20))",
    "with open('data', 'rb') as file:\n    while file.read(1 << 20): pass",
    "import time, os\nos.remove('data')",
    "much = bytearray(220 << 20); much[::4096] = b'x' * len(much[::4096]); time.sleep(0.4); del much",
    "kept = bytearray(90 << 20); kept[::4096] = b'x' * len(kept[::4096])",
]

client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=60)
for cell in CELLS:
    reply = client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)
    if reply["content"]["status"] != "ok":
        sys.exit(f"{cell}: {reply['content']}")
client.stop_channels()
