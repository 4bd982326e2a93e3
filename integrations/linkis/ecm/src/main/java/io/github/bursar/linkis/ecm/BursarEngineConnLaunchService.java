package io.github.bursar.linkis.ecm;

import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.ecm.core.engineconn.EngineConn;
import org.apache.linkis.ecm.core.launch.EngineConnLaunch;
import org.apache.linkis.ecm.server.conf.ECMConfiguration;
import org.apache.linkis.ecm.server.service.impl.LinuxProcessEngineConnLaunchService;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.protocol.engine.EngineConnStatusCallbackToAM;
import org.apache.linkis.manager.engineplugin.common.launch.entity.EngineConnLaunchRequest;
import org.apache.linkis.manager.label.utils.LabelUtil;
import org.apache.linkis.rpc.Sender;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts engines that have a reservation of this host, and confirms each by the pid of its JVM as
 * soon as that runs. The engine's own call-back to LinkisManager comes seconds later, and confirms
 * the same pid; it does so alone if the JVM cannot be found with certainty.
 */
public class BursarEngineConnLaunchService extends LinuxProcessEngineConnLaunchService {
  private static final Logger log = LoggerFactory.getLogger(BursarEngineConnLaunchService.class);

  private static final long LOOK_FIRST = 50; // milliseconds
  private static final long LOOK_LAST = 500;

  /** How long the JVM is looked for. Plugins unpack and scripts run before it. */
  private static final Duration SEARCH = Duration.ofMinutes(2);

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Ecm ecm;
  private final BursarEngineConnKillService killer;
  private final ExecutorService confirming;

  BursarEngineConnLaunchService(Ecm ecm, BursarEngineConnKillService killer) {
    this.ecm = ecm;
    this.killer = killer;
    AtomicLong number = new AtomicLong();
    this.confirming =
        Executors.newCachedThreadPool(
            task -> {
              Thread thread = new Thread(task, "bursar-confirm-" + number.incrementAndGet());
              thread.setDaemon(true);
              return thread;
            });
  }

  @Override
  public EngineConnLaunch createEngineConnLaunch() {
    return new BursarEngineConnLaunch(ecm);
  }

  @Override
  public void beforeLaunch(EngineConnLaunchRequest request, EngineConn conn, long duration) {
    ecm.requireReservation(request.ticketId());
    super.beforeLaunch(request, conn, duration);
  }

  @Override
  public void startEngineConnMonitorStart(EngineConnLaunchRequest request, EngineConn conn) {
    BursarEngineConnLaunch launch =
        (BursarEngineConnLaunch) conn.getEngineConnLaunchRunner().getEngineConnLaunch();
    ecm.started.put(conn.getServiceInstance().getInstance(), launch.started());
    super.startEngineConnMonitorStart(request, conn);
    if (launch.livesInYarn()) {
      log.info(
          "engine {} of ticket {} will run in a YARN cluster: it is confirmed by its call-back alone",
          conn.getServiceInstance(),
          request.ticketId());
      return;
    }
    OptionalLong root = launch.root();
    if (!root.isPresent()) {
      log.warn(
          "engine {} of ticket {}: this Java does not tell the pid of a child: it is confirmed by"
              + " the engine's call-back alone",
          conn.getServiceInstance(),
          request.ticketId());
      return;
    }
    confirming.execute(() -> confirm(request, conn, launch, root.getAsLong()));
  }

  private void confirm(
      EngineConnLaunchRequest request, EngineConn conn, BursarEngineConnLaunch launch, long root) {
    String ticket = request.ticketId();
    EngineProcess jvm;
    try {
      jvm = find(launch, root, ticket);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return;
    }
    if (jvm == null) {
      if (launch.rootRuns()) {
        log.warn(
            "engine {} of ticket {}: its JVM was not found below pid {} within {}: it is confirmed"
                + " by the engine's call-back alone",
            conn.getServiceInstance(),
            ticket,
            root,
            SEARCH);
      }
      return;
    }
    launch.started().jvm = jvm;
    conn.setPid(Long.toString(jvm.pid));
    if (ecm.settings.launch) {
      return; // the agent has confirmed what it has started
    }
    String instance = conn.getServiceInstance().getInstance();
    try {
      AgentAllocation confirmed = ecm.agent.confirm(ticket, jvm, instance, PATIENCE);
      log.info("engine {} is confirmed: {}, {}", instance, confirmed, jvm);
    } catch (AgentException e) {
      if (Ecm.mustNotRun(ecm.agent, ticket, e, PATIENCE)) {
        refuse(request, conn, jvm, e);
      } else {
        log.error(
            "{}: it runs, and is confirmed by its call-back alone",
            Ecm.refused("engine " + instance + " is not confirmed", e).getMessage());
      }
    }
  }

  private EngineProcess find(BursarEngineConnLaunch launch, long root, String ticket)
      throws InterruptedException {
    long end = System.nanoTime() + SEARCH.toNanos();
    for (long pause = LOOK_FIRST; launch.rootRuns(); pause = Math.min(pause * 3 / 2, LOOK_LAST)) {
      EngineProcess jvm = ecm.processes.engineBelow(root, ticket);
      // If it still runs, its pid was not given to another process in between.
      if (jvm != null && launch.rootRuns()) {
        return jvm;
      }
      if (System.nanoTime() > end) {
        return null;
      }
      Thread.sleep(pause);
    }
    return null;
  }

  /** Ends an engine whose allocation is over: nobody counts it. */
  private void refuse(
      EngineConnLaunchRequest request, EngineConn conn, EngineProcess jvm, AgentException reason) {
    ServiceInstance instance = conn.getServiceInstance();
    String text = "Bursar refuses engine " + instance.getInstance() + ": " + reason.getMessage();
    log.error("{}: it is stopped", text);
    conn.setStatus(NodeStatus.Failed);
    Sender.getSender(ECMConfiguration.MANAGER_SERVICE_NAME())
        .send(new EngineConnStatusCallbackToAM(instance, NodeStatus.Failed, text, true));
    killer.killNow(
        instance,
        request.user(),
        LabelUtil.getEngineType(request.labels()),
        conn.getEngineConnManagerEnv().engineConnLogDirs(),
        jvm);
  }
}
