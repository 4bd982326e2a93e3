package io.github.bursar.linkis.ecm;

import java.io.Closeable;
import java.time.Duration;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the agent end what an engine leaves behind: the processes of its tasks, which hold its
 * allocation as long as they live. Without this they do until Linkis's own scan finds the engine
 * dead. If it fails, that scan does it.
 */
final class EndedEngines implements Closeable {
  private static final Logger log = LoggerFactory.getLogger(EndedEngines.class);

  private static final int THREADS = 4;
  private static final int WAITING = 1000;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Agent agent;
  private final ProcessTable processes;
  private final ThreadPoolExecutor stopping;

  EndedEngines(Agent agent, ProcessTable processes) {
    this.agent = agent;
    this.processes = processes;
    this.stopping =
        new ThreadPoolExecutor(
            THREADS,
            THREADS,
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(WAITING),
            task -> {
              Thread thread = new Thread(task, "bursar-ended");
              thread.setDaemon(true);
              return thread;
            });
    stopping.allowCoreThreadTimeOut(true);
  }

  /**
   * The process that was started for an engine has ended. Returns at once.
   *
   * @param jvm the engine's own process; null: it was never found, and what is left is for Linkis's
   *     scan
   */
  void ended(String ticket, EngineProcess jvm) {
    if (jvm == null) {
      return;
    }
    if (processes.runs(jvm)) {
      log.info("engine of ticket {}: what started it has ended, and it goes on: {}", ticket, jvm);
      return;
    }
    try {
      stopping.execute(() -> stop(ticket));
    } catch (RejectedExecutionException e) {
      log.warn("engine of ticket {} has ended: what it left is not looked for: {} wait", ticket, WAITING);
    }
  }

  private void stop(String ticket) {
    try {
      AgentAllocation allocation = agent.get(ticket, PATIENCE);
      if (allocation.isActive() && !allocation.stopping) { // whoever stops it has a reason, and a grace
        agent.stop(ticket, "its engine has ended", Duration.ZERO, PATIENCE);
        log.info("engine of ticket {} has ended: its agent ends what it left", ticket);
      }
    } catch (AgentException e) {
      if (!e.isUnknown()) {
        log.warn("engine of ticket {} has ended: what it left may live on: {}", ticket, e.getMessage());
      }
    }
  }

  @Override
  public void close() {
    stopping.shutdownNow();
  }
}
