package io.github.bursar.linkis.placement;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.HostInfo;
import io.github.bursar.client.Page;
import io.github.bursar.client.Resource;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Orders hosts for a request by what Bursar says they have. What it says is used for a second; what
 * is chosen meanwhile is counted, so that requests that come together do not all go to one host.
 * Safe for concurrent use.
 */
final class HostChooser {
  private static final long FRESH_NANOS = 1_000_000_000L;

  private final Supplier<List<HostInfo>> hosts;
  private final LongSupplier nanos;
  private Map<String, Room> rooms;
  private RuntimeException failure;
  private long askedAt;

  /**
   * @param hosts asks Bursar, and takes at most a second for that
   */
  HostChooser(Supplier<List<HostInfo>> hosts, LongSupplier nanos) {
    this.hosts = hosts;
    this.nanos = nanos;
  }

  /** All hosts that Bursar has, all pages together within a time. */
  static List<HostInfo> hosts(BursarClient bursar, Duration patience) {
    long end = System.nanoTime() + patience.toNanos();
    List<HostInfo> hosts = new ArrayList<>();
    String next = "";
    do {
      Duration left = Duration.ofNanos(end - System.nanoTime());
      if (left.toMillis() < 1) {
        throw new IllegalStateException("Bursar has not named all hosts within " + patience.toMillis() + " ms");
      }
      Page<HostInfo> page = bursar.within(left).hosts(next);
      hosts.addAll(page.items());
      next = page.nextPageToken();
    } while (!next.isEmpty());
    return hosts;
  }

  /** What a host has, and what was chosen since. */
  private static final class Room {
    final HostInfo host;
    long memory;
    long cpu;

    Room(HostInfo host) {
      this.host = host;
      Resource available = host.account().available();
      memory = available.memoryBytes().orElse(Long.MAX_VALUE);
      cpu = available.cpuMillis().orElse(Long.MAX_VALUE);
    }

    boolean takes(Resource r) {
      for (Map.Entry<String, Long> c : r.custom().entrySet()) {
        if (host.account().available().custom().getOrDefault(c.getKey(), 0L) < c.getValue()) {
          return false;
        }
      }
      return memory >= r.memoryBytes().orElse(0) && cpu >= r.cpuMillis().orElse(0);
    }

    /** The share of the host that is left with the request: of memory or cpu, whichever has less. */
    double left(Resource r) {
      Resource limit = host.account().limit();
      return Math.min(
          share(memory - r.memoryBytes().orElse(0), limit.memoryBytes()),
          share(cpu - r.cpuMillis().orElse(0), limit.cpuMillis()));
    }

    private static double share(long left, OptionalLong limit) {
      return limit.orElse(0) > 0 ? (double) left / limit.getAsLong() : 1;
    }

    void take(Resource r) {
      memory -= r.memoryBytes().orElse(0);
      cpu -= r.cpuMillis().orElse(0);
    }
  }

  /**
   * The candidates in the order in which they should be tried, without those whose host takes no
   * engines: those with room for the request first, and of these the one with the most left. If
   * none is left the candidates are returned as they were.
   */
  synchronized <T> List<T> order(List<T> candidates, Function<T, String> hostOf, Resource request) {
    ask();
    Map<T, Room> roomOf = new HashMap<>();
    List<T> open = new ArrayList<>();
    for (T c : candidates) {
      Room room = rooms.get(hostOf.apply(c));
      if (room != null && room.host.unavailableReason().isEmpty()) {
        roomOf.put(c, room);
        open.add(c);
      }
    }
    if (open.isEmpty()) {
      return candidates;
    }
    open.sort(
        Comparator.<T, Boolean>comparing(c -> !roomOf.get(c).takes(request))
            .thenComparing(c -> -roomOf.get(c).left(request)));
    roomOf.get(open.get(0)).take(request);
    return open;
  }

  /** Asks Bursar, unless it did so within a second: whether there was an answer or not. */
  private void ask() {
    boolean asked = rooms != null || failure != null;
    if (!asked || nanos.getAsLong() - askedAt > FRESH_NANOS) {
      rooms = null;
      failure = null;
      try {
        Map<String, Room> read = new HashMap<>();
        hosts.get().forEach(h -> read.put(h.id(), new Room(h)));
        rooms = read;
      } catch (RuntimeException e) {
        failure = e;
      }
      askedAt = nanos.getAsLong();
    }
    if (failure != null) {
      throw failure;
    }
  }
}
