# proxy.py LISTEN TARGET MODEFILE: passes TCP connections of 127.0.0.1:LISTEN on to
# 127.0.0.1:TARGET. While MODEFILE says freeze, no byte passes, in either direction, and connections
# stay open.
import asyncio, sys

listen, target, modefile = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def frozen():
    with open(modefile) as file:
        return file.read().strip() == 'freeze'


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            while frozen():
                await asyncio.sleep(0.05)
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    while frozen():
        await asyncio.sleep(0.05)
    try:
        up_reader, up_writer = await asyncio.open_connection('127.0.0.1', target)
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer))


async def main():
    async with await asyncio.start_server(serve, '127.0.0.1', listen) as server:
        await server.serve_forever()

asyncio.run(main())
