# proxy.py LISTEN TARGET MODEFILE: passes TCP connections of 127.0.0.1:LISTEN on to
# 127.0.0.1:TARGET. While MODEFILE says freeze, no byte passes, in either direction, and connections
# stay open. While it says cut, connections are closed at once.
import asyncio, sys

listen, target, modefile = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
writers = set()


def mode():
    with open(modefile) as file:
        return file.read().strip()


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            while mode() == 'freeze':
                await asyncio.sleep(0.05)
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    writers.add(writer)
    try:
        while mode() == 'freeze':
            await asyncio.sleep(0.05)
        up_reader, up_writer = await asyncio.open_connection('127.0.0.1', target)
        writers.add(up_writer)
        await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer))
        writers.discard(up_writer)
    except OSError:
        pass
    finally:
        writer.close()
        writers.discard(writer)


async def cut():
    while True:
        if mode() == 'cut':
            for writer in list(writers):
                writer.transport.abort()
        await asyncio.sleep(0.05)


async def main():
    cutting = asyncio.create_task(cut())
    async with await asyncio.start_server(serve, '127.0.0.1', listen) as server:
        await server.serve_forever()
    await cutting

asyncio.run(main())
