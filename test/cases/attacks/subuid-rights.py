# argv: the user id that it runs as, in the agent's namespace. It tries what its owner has (the id in
# $WORK/tmp/owners), and leaves a reservation of its own.
import os, sys
from api import call, must

user = sys.argv[1]
shared = os.path.join(os.environ['WORK'], 'tmp')
owners = open(os.path.join(shared, 'owners')).read().strip()
size = {'memoryBytes': str(8 << 20), 'cpuMillis': '10'}
for labels in ({'user': 'mallory'}, {'user': 'bob'}):
    print('as', labels['user'], call('AllocationService/Allocate', {'labels': labels, 'resource': size})[0])
print('release', call('AllocationService/Release', {'id': owners})[0])
print('stop', call('AllocationService/Stop', {'id': owners})[0])
print('launch', call('EngineService/Launch', {'id': owners, 'command': ['true'], 'workingDirectory': '/'})[0])
print('confirm', call('AllocationService/Confirm', {'id': owners, 'process': {'pid': os.getpid()}})[0])
answer = must('AllocationService/Allocate', {'resource': size, 'reservationTtl': '600s'})['allocation']
print('acts', answer['actingUser'] == user and answer['labels']['user'] == 'mallory')
with open(os.path.join(shared, user), 'w') as file:
    file.write(answer['id'])
os.chmod(os.path.join(shared, user), 0o644)
