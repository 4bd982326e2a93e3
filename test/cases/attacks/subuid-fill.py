# argv: the user id that it runs as. It reserves as often as it may, 299 times at most.
import sys, time
from api import call

user = sys.argv[1]
labels = {'k%02d' % k + 'y' * 50: 'z' * 255 for k in range(23)}
labels['user'] = user
granted, end = 0, time.time() + 15
while granted < 299 and time.time() < end:
    status, answer = call('AllocationService/Allocate', {'labels': labels, 'resource': {'memoryBytes': '1'}, 'reservationTtl': '3600s'})
    if status == 200:
        granted += 1
    elif 'too many requests' in answer.get('message', ''):
        time.sleep(0.5)
    else:
        print(answer.get('message', '')[:200])
        break
print('reserved', user, granted)
