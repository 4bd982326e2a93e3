package io.github.bursar.linkis.allocation;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives back what engines had. Linkis swallows what goes wrong when it clears an engine, and its
 * rows are gone then; so a release that nobody answered is repeated here for an hour. If this
 * process ends meanwhile, the host's agent, the lease or the time to live of the reservation gives
 * it back.
 */
final class Releases implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Releases.class);
  private static final int MOST = 10_000;
  private static final int ATTEMPTS = 60;
  private static final int AT_ONCE = 16; // more of them run in their callers' threads
  private static final Duration BETWEEN = Duration.ofMinutes(1);
  private static final Duration GRACE = Duration.ofSeconds(10);
  private static final Duration FIRST = Duration.ofSeconds(5);
  private static final Duration QUICK = Duration.ofSeconds(2);

  private final BursarClient client;
  private final BursarClient quick;
  private final Duration between;
  private final ScheduledThreadPoolExecutor later;
  private final ThreadPoolExecutor now;
  private volatile boolean away;

  Releases(BursarClient client) {
    this(client, BETWEEN);
  }

  Releases(BursarClient client, Duration between) {
    this.client = client;
    quick = client.within(QUICK);
    this.between = between;
    ThreadFactory threads =
        r -> {
          Thread t = new Thread(r, "bursar-releases");
          t.setDaemon(true);
          return t;
        };
    later = new ScheduledThreadPoolExecutor(1, threads);
    now = new ThreadPoolExecutor(0, AT_ONCE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), threads, (task, full) -> task.run());
  }

  /** Begins a release. Running what is returned waits until {@link #release} would have returned. */
  Runnable begin(String ticket, String reason) {
    FutureTask<Void> task = new FutureTask<>(() -> release(ticket, reason), null);
    now.execute(task);
    return () -> {
      try {
        task.get();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      } catch (ExecutionException e) {
        log.error("{} is not released", ticket, e.getCause());
      }
    };
  }

  /**
   * Gives it back, now or later. Its caller is held for one short attempt, and for none while the
   * last one was not answered.
   *
   * <p>Stop is right for all: it cancels a reservation, gives back what has a lease, and has the
   * agent end a process; what that has comes back when it has really ended. Whether there is a
   * process is the agent's to know, so no pid of Linkis is looked at.
   */
  void release(String ticket, String reason) {
    if (!away) {
      try {
        attempt(quick, ticket, reason);
        return;
      } catch (BursarException e) {
        away = true;
        log.warn("{} is released later, for nobody could do it now: {}", ticket, e.getMessage());
      }
    }
    again(ticket, reason, 1);
  }

  private void attempt(BursarClient asked, String ticket, String reason) {
    try {
      asked.stop(ticket, GRACE, reason);
    } catch (BursarException e) {
      if (unanswered(e)) {
        throw e;
      }
      notStopped(asked, ticket, reason, e);
    }
    away = false;
  }

  private static void notStopped(BursarClient asked, String ticket, String reason, BursarException why) {
    switch (why.code()) {
      case NOT_FOUND:
      case FAILED_PRECONDITION: // it has ended
        return;
      case INVALID_ARGUMENT: // a ticket of stock Linkis: in shadow that was the id of the request
        try {
          asked.getByRequestId(ticket).filter(a -> !a.state().ended()).ifPresent(a -> asked.release(a.id(), reason));
          return;
        } catch (BursarException e) {
          if (unanswered(e)) {
            throw e;
          }
          log.error("{} is not released: {}", ticket, e.getMessage());
          return;
        }
      default:
        log.error("{} is not released: {}", ticket, why.getMessage());
    }
  }

  private static boolean unanswered(BursarException e) {
    return e.retriable() || e.code() == BursarException.Code.CANCELED || e.code() == BursarException.Code.UNAUTHENTICATED;
  }

  private void again(String ticket, String reason, int n) {
    if (n > ATTEMPTS || later.getQueue().size() >= MOST) {
      log.error("{} is not released by this manager any more: its agent, lease or time to live does it", ticket);
      return;
    }
    // The first of them finds out soon whether somebody answers again.
    long delay = n == 1 ? Math.min(between.toMillis(), FIRST.toMillis()) : between.toMillis();
    try {
      later.schedule(
          () -> {
            try {
              attempt(client, ticket, reason);
              log.info("{} is released", ticket);
            } catch (BursarException e) {
              away = true;
              again(ticket, reason, n + 1);
            }
          },
          delay,
          TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException e) {
      log.debug("closed", e);
    }
  }

  int waiting() {
    return later.getQueue().size();
  }

  @Override
  public void close() {
    later.shutdownNow();
    now.shutdown();
  }
}
