# argv: the user id that it runs as, in the coordinator's namespace.
import sys
from api import call

status, answer = call('AllocationService/Allocate', {'resource': {'memoryBytes': str(100 << 20), 'cpuMillis': '100'}, 'reservationTtl': '600s'}, tcp=True)
print('granted' if status == 200 else 'refused', sys.argv[1], answer.get('message', '')[:160])
