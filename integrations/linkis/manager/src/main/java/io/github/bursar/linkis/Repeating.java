package io.github.bursar.linkis;

import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Runs something again and again in a thread of its own, from when all beans are there until they
 * are taken down. The next run begins an interval after the last one has ended.
 */
public final class Repeating implements SmartLifecycle {
  private static final Duration PATIENCE = Duration.ofSeconds(5);
  private static final Logger log = LoggerFactory.getLogger(Repeating.class);

  private final String name;
  private final Duration interval;
  private final Runnable action;
  /** What went wrong in the last run, in words. */
  private String failure = "";
  private final Runnable last;
  private ScheduledExecutorService thread;

  /** With the thread's name. If the action throws, that is logged, and it is run again. */
  public Repeating(String name, Duration interval, Runnable action) {
    this(name, interval, action, () -> {});
  }

  /** With what is done last, when no run is going on any more. */
  public Repeating(String name, Duration interval, Runnable action, Runnable last) {
    this.name = name;
    this.interval = interval;
    this.action = action;
    this.last = last;
  }

  @Override
  public synchronized void start() {
    if (thread != null) {
      return;
    }
    thread = Executors.newSingleThreadScheduledExecutor(r -> {
      Thread t = new Thread(r, name);
      t.setDaemon(true);
      return t;
    });
    thread.scheduleWithFixedDelay(this::once, 0, interval.toMillis(), TimeUnit.MILLISECONDS);
  }

  /** The executor would run nothing any more after a run that throws, and say nothing. */
  private void once() {
    try {
      action.run();
      failure = "";
    } catch (Throwable e) {
      if (!failure.equals(e.toString())) {
        failure = e.toString();
        log.error("{} has failed, is run again in {} ms", name, interval.toMillis(), e);
      }
    }
  }

  @Override
  public synchronized void stop() {
    if (thread == null) {
      return;
    }
    thread.shutdownNow();
    try {
      if (thread.awaitTermination(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
        last.run();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    thread = null;
  }

  @Override
  public synchronized boolean isRunning() {
    return thread != null;
  }
}
