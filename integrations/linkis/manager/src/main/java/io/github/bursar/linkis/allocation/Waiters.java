package io.github.bursar.linkis.allocation;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongFunction;

/**
 * Bounds how many threads of Linkis's creation pool wait for resources: half of the pool, and a few
 * for each user, so that a user who has nothing left does not hold up all others. Who may not wait
 * asks once.
 */
final class Waiters {
  private static final int MOST_OF_ONE = 8;

  private final int most;
  private final int mostOfOne;
  private final Map<String, Integer> waiting = new HashMap<>(); // guarded by this, as all
  private int all;

  /** With the size of the pool. */
  Waiters(int pool) {
    most = Math.max(1, pool / 2);
    mostOfOne = Math.max(1, Math.min(MOST_OF_ONE, most / 2));
  }

  /** Calls with as many milliseconds as the user may wait now: all of them, or none. */
  <T> T waiting(String user, long millis, LongFunction<T> call) {
    if (millis <= 0 || !enter(user)) {
      return call.apply(0);
    }
    try {
      return call.apply(millis);
    } finally {
      leave(user);
    }
  }

  private synchronized boolean enter(String user) {
    int own = waiting.getOrDefault(user, 0);
    if (all >= most || own >= mostOfOne) {
      return false;
    }
    all++;
    waiting.put(user, own + 1);
    return true;
  }

  private synchronized void leave(String user) {
    all--;
    waiting.compute(user, (u, n) -> n == null || n == 1 ? null : n - 1);
  }
}
