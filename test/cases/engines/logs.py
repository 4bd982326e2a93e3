"""logs.py TOKEN ID [OFFSET]: the standard output of an engine, followed, from the coordinator."""
import base64, http.client, json, struct, sys

from api import ADDR, tok

who, ID, offset = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ['0'])[0])
request = json.dumps({'id': ID, 'stream': 'OUTPUT_STREAM_STDOUT', 'follow': True, 'offset': str(offset)}).encode()
connection = http.client.HTTPConnection(ADDR, timeout=30)
connection.request('POST', '/bursar.v1.EngineService/Logs', struct.pack('>BI', 0, len(request)) + request, {
    'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', 'Authorization': 'Bearer ' + tok(who)})
response = connection.getresponse()
if response.status != 200:
    sys.exit(f'{response.status} {response.read()[:400]}')
while True:
    head = response.read(5)
    if len(head) < 5:
        sys.exit('it ended in the middle')
    flags, size = struct.unpack('>BI', head)
    message = json.loads(response.read(size))
    if flags & 2:  # the end of the stream
        if 'error' in message:
            sys.exit(json.dumps(message['error']))
        break
    sys.stdout.buffer.write(base64.b64decode(message.get('data', '')))
    sys.stdout.buffer.flush()
