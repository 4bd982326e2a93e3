package io.github.bursar.linkis.projection;

import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares the engines that Linkis has with the allocations that live in Bursar, and ends on one
 * side what has ended on the other:
 *
 * <ul>
 *   <li>An engine whose allocation has ended is cleared in Linkis. Its process is only to be killed
 *       if nothing says that it has ended: its pid may be another's by now.
 *   <li>An allocation whose engine Linkis has cleared is given back. If its process still runs, its
 *       host's agent ends it, which knows whose process it is.
 *   <li>The lease of an engine without a pid is renewed as long as Linkis has the engine.
 * </ul>
 *
 * <p>Nothing is remembered that a restart could lose, and doing it twice does no harm: several
 * managers may do it at the same time. Engines that Bursar does not know, such as those from before
 * it decided, are left alone.
 */
final class EndedWatcher {
  /**
   * How long an allocation may live without its engine in Linkis: the row comes a moment after the
   * grant, and an engine that ends gracefully is cleared some seconds before its process ends.
   */
  static final Duration GRACE = Duration.ofSeconds(15);
  /** How often an engine that could not be cleared, or that Bursar does not know, is looked at again. */
  private static final Duration AGAIN = Duration.ofSeconds(30);
  /** How many calls one pass makes at most for engines whose allocation is gone. */
  private static final int CALLS = 500;
  /** What an agent, or the coordinator for it, says of a process that has ended. */
  private static final Set<String> ENDS =
      Collections.unmodifiableSet(
          new HashSet<>(Arrays.asList("process ended", "its process ended", "host rebooted", "stopped")));
  /** And of one that it has stopped, before the reason of that. */
  private static final String STOPPED = "stopped: ";
  private static final Logger log = LoggerFactory.getLogger(EndedWatcher.class);

  private final LinkisEngines engines;
  private final BursarClient bursar;
  private final Executor workers;
  private final LongSupplier nanos;

  /** Tickets that a worker has now. */
  private final Set<String> inWork = ConcurrentHashMap.newKeySet();
  /** Tickets that are not looked at before a time, in nanoseconds. */
  private final Map<String, Long> notBefore = new ConcurrentHashMap<>();
  /** Live allocations without an engine in Linkis, and since when, in nanoseconds. */
  private final Map<String, Long> withoutEngine = new HashMap<>();
  /** Live allocations that Linkis has not made. */
  private final Set<String> others = new HashSet<>();
  /** For how long a lease was good when it was first seen. */
  private final Map<String, Duration> leases = new HashMap<>();
  private final EachOne each = new EachOne("engines are not compared with Bursar's allocations");

  /**
   * @param workers run what may take long, such as a call of an ECM
   */
  EndedWatcher(LinkisEngines engines, BursarClient bursar, Executor workers) {
    this(engines, bursar, workers, System::nanoTime);
  }

  EndedWatcher(LinkisEngines engines, BursarClient bursar, Executor workers, LongSupplier nanos) {
    this.engines = engines;
    this.bursar = bursar;
    this.workers = workers;
    this.nanos = nanos;
  }

  /**
   * Compares once.
   *
   * @param tickets those of all engines in Linkis, read before the allocations: then one that is
   *     not among these has ended
   */
  void compare(Set<String> tickets, Map<String, Allocation> live) {
    leases.keySet().retainAll(live.keySet());
    notBefore.keySet().retainAll(tickets);
    each.begin();
    // First: a lease that is not renewed in time ends an engine that runs.
    live.forEach((id, a) -> {
      if (tickets.contains(id)) {
        each.run(id, () -> renewIfDue(a));
      }
    });
    int calls = 0;
    for (String ticket : tickets) {
      if (!live.containsKey(ticket) && due(ticket) && calls++ < CALLS) {
        later(ticket); // unless its row is gone then
        each.run(ticket, () -> hasEnded(ticket));
      }
    }
    Set<String> orphans = new HashSet<>();
    for (String id : live.keySet()) {
      if (!tickets.contains(id)) {
        orphans.add(id);
      }
    }
    withoutEngine.keySet().retainAll(orphans);
    others.retainAll(orphans);
    orphans.forEach(id -> each.run(id, () -> isWithoutEngine(live.get(id))));
    each.end();
  }

  private boolean due(String ticket) {
    Long time = notBefore.get(ticket);
    return time == null || nanos.getAsLong() - time >= 0;
  }

  private void later(String ticket) {
    notBefore.put(ticket, nanos.getAsLong() + AGAIN.toNanos());
  }

  private void hasEnded(String ticket) {
    Optional<Allocation> found = find(ticket);
    if (!found.isPresent() || !found.get().state().ended()) {
      // made before Bursar decided, or the ledger was put back and hosts have yet to report
      return;
    }
    Allocation a = found.get();
    if (inWork.add(ticket)) {
      workers.execute(() -> {
        try {
          end(a);
        } catch (Exception e) {
          log.warn("engine {} is not ended in Linkis, is tried again: {}", ticket, e.toString());
        } finally {
          inWork.remove(ticket);
        }
      });
    }
  }

  private Optional<Allocation> find(String ticket) {
    try {
      return bursar.get(ticket);
    } catch (BursarException e) {
      if (e.code() == BursarException.Code.INVALID_ARGUMENT) { // a ticket of stock Linkis
        return Optional.empty();
      }
      throw e;
    }
  }

  private void end(Allocation a) {
    LinkisEngines.Ended ended = engines.end(a.id(), processEnded(a), a.pid() != 0, a.exitCode().orElse(-1) == 0);
    if (ended != LinkisEngines.Ended.GONE) {
      log.info(
          "engine {} is ended in Linkis ({}): its allocation is {}: {}", a.id(), ended, a.state(), a.reason());
    }
  }

  /**
   * Whether the process is said to have ended. That its resources are given back does not say so: a
   * user may release the allocation of an engine that runs. It is no proof: the user may give the
   * same reasons as an agent.
   */
  static boolean processEnded(Allocation a) {
    if (a.exitCode().isPresent() || a.exitSignal() != 0) {
      return true;
    }
    boolean byAgent = ENDS.contains(a.reason()) || a.reason().startsWith(STOPPED);
    return a.state() == AllocationState.RELEASED && a.pid() != 0 && byAgent;
  }

  private void isWithoutEngine(Allocation a) {
    boolean holds = a.state() == AllocationState.RESERVED || a.state() == AllocationState.ACTIVE;
    if (!holds || a.stopping() || others.contains(a.id())) {
      return;
    }
    long now = nanos.getAsLong();
    Long since = withoutEngine.putIfAbsent(a.id(), now);
    if (since == null || now - since < GRACE.toNanos()) {
      return;
    }
    if (!engines.wasOurs(a.id())) {
      others.add(a.id());
      return;
    }
    if (engines.has(a.id())) { // its row came after the tickets were read
      withoutEngine.remove(a.id());
      return;
    }
    String reason = "Linkis has ended this engine";
    log.info("allocation {} is given back: {}", a.id(), reason);
    withoutEngine.put(a.id(), now);
    if (a.pid() != 0) {
      bursar.stop(a.id(), null, reason);
    } else {
      bursar.release(a.id(), reason);
    }
  }

  private void renewIfDue(Allocation a) {
    if (a.state() != AllocationState.ACTIVE || a.pid() != 0 || !a.expireTime().isPresent()) {
      return;
    }
    Duration left = Duration.between(Instant.now(), a.expireTime().get());
    Duration whole = leases.merge(a.id(), left, (x, y) -> x.compareTo(y) > 0 ? x : y);
    if (left.compareTo(whole.dividedBy(2)) < 0) {
      bursar.renew(a.id(), null);
    }
  }
}
