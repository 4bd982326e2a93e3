package io.github.bursar.linkis.clusters;

import io.github.bursar.client.Account;
import io.github.bursar.client.QueueInfo;
import io.github.bursar.client.Resource;
import java.util.OptionalLong;

/**
 * What a queue may have at most, and what it has: engines that run or are reserved, and what others
 * use. A quantity without a limit is never used up.
 */
final class QueueFigures {
  private static final long MILLIS_PER_CORE = 1000; // a vcore of YARN

  final String name;
  private final OptionalLong maxMemory;
  private final OptionalLong maxCpu;
  private final long usedMemory;
  private final long usedCpu;

  QueueFigures(QueueInfo queue) {
    name = queue.kind() + ":" + queue.cluster() + ":" + queue.path();
    Account account = queue.account();
    maxMemory = account.limit().memoryBytes();
    maxCpu = account.limit().cpuMillis();
    Resource used = account.used().plus(account.reserved()).plus(account.usedByOthers());
    usedMemory = used.memoryBytes().orElse(0);
    usedCpu = used.cpuMillis().orElse(0);
  }

  /** The share of the cores that is used; 1 is all. */
  double cpuShare() {
    return share(usedCpu, maxCpu);
  }

  /** The share of the memory that is used; 1 is all. */
  double memoryShare() {
    return share(usedMemory, maxMemory);
  }

  /** Whole cores that are left. */
  long coresLeft() {
    return left(usedCpu, maxCpu) / MILLIS_PER_CORE;
  }

  /** Whole GiB that are left. */
  long gibibytesLeft() {
    return left(usedMemory, maxMemory) >> 30;
  }

  private static double share(long used, OptionalLong max) {
    if (!max.isPresent()) {
      return 0;
    }
    // A queue that may have nothing is full.
    return max.getAsLong() == 0 ? 1 : (double) used / max.getAsLong();
  }

  private static long left(long used, OptionalLong max) {
    return max.isPresent() ? Math.max(0, max.getAsLong() - used) : Long.MAX_VALUE;
  }
}
