"""Calls of an agent or a coordinator for cases: Connect with JSON.

call('AllocationService/Allocate', {...}) goes to the agent's socket (SOCK); with token= or tcp=True
it goes to the coordinator (ADDR). It returns the HTTP status and the decoded answer.
"""
import http.client, json, os, socket, sys

SOCK = os.environ.get('SOCK', '')
ADDR = os.environ.get('ADDR', '')
ME = os.environ.get('ME', '')


class Agent(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__('agent', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def tok(name):
    """The token of an identity: see attacked in lib.sh."""
    with open(os.path.join(os.environ['TOK'], name)) as file:
        return file.read().strip()


def call(method, body, token=None, tcp=False, timeout=60):
    if token or tcp:
        connection = http.client.HTTPConnection(ADDR, timeout=timeout)
    else:
        connection = Agent(SOCK, timeout)
    headers = {'Content-Type': 'application/json'}
    if token:
        headers['Authorization'] = 'Bearer ' + token
    connection.request('POST', '/bursar.v1.' + method, json.dumps(body), headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    try:
        return response.status, json.loads(answer)
    except ValueError:
        return response.status, {'raw': answer[:400].decode('latin1')}


def must(method, body, **how):
    """call, and the case ends if it is refused."""
    status, answer = call(method, body, **how)
    if status != 200:
        sys.exit(f'{method}: {status} {answer}')
    return answer


def fault(text):
    """The fault that the case looks for is there. The case ends."""
    print('FAULT:', text, flush=True)
    sys.exit(1)
