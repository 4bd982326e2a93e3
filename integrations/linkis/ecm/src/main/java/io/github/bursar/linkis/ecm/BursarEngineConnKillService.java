package io.github.bursar.linkis.ecm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.commons.lang3.StringUtils;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.ecm.server.service.impl.DefaultEngineConnKillService;
import org.apache.linkis.ecm.utils.ECMCacheUtils;
import org.apache.linkis.governance.common.utils.GovernanceUtils;
import org.apache.linkis.manager.common.constant.AMConstant;
import org.apache.linkis.manager.common.protocol.engine.EngineStopRequest;
import org.apache.linkis.manager.common.protocol.engine.EngineStopResponse;
import org.apache.linkis.rpc.message.annotation.Receiver;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stops the engine of the ticket that an address has, and nothing else: through its agent, or, if
 * that does not know the process, as Linkis does it. Neither a port nor a pid that an engine had at
 * some time is enough.
 */
public class BursarEngineConnKillService extends DefaultEngineConnKillService {
  private static final Logger log = LoggerFactory.getLogger(BursarEngineConnKillService.class);

  /** Between SIGTERM and SIGKILL. */
  private static final Duration GRACE = Duration.ofSeconds(10);

  /** From the order until the engine is over: the grace, and the agent's reports. */
  private static final Duration UNTIL_OVER = Duration.ofSeconds(25);

  /** From SIGKILL until a process is no longer there. */
  private static final Duration UNTIL_KILLED = Duration.ofSeconds(2);

  /** How many JVMs with one ticket are ended by one request: anybody can start more of them. */
  private static final int MAX_JVMS = 8;

  private static final Duration PATIENCE = Duration.ofSeconds(5);
  private static final long ASK = 200; // milliseconds

  private final Ecm ecm;

  BursarEngineConnKillService(Ecm ecm) {
    this.ecm = ecm;
  }

  @Override
  @Receiver
  public EngineStopResponse dealEngineConnStop(EngineStopRequest request) {
    ServiceInstance instance = request.getServiceInstance();
    if (instance == null || StringUtils.isBlank(instance.getInstance())) {
      return answer(false, "Kill engine failed: it was not started, and has no address.");
    }
    String address = instance.getInstance();
    if (isProcess(request)) {
      ECMCacheUtils.putStopECToCache(instance, request);
    }
    try {
      List<StopTarget> targets = StopTarget.at(ecm, address, request.getLogDirSuffix());
      if (targets.isEmpty()) {
        return noTicket(request, address);
      }
      if (isProcess(request) && targets.stream().anyMatch(target -> target.has(pid(request)))) {
        targets.removeIf(target -> !target.has(pid(request)));
      }
      EngineStopResponse response = null;
      for (StopTarget target : targets) {
        EngineStopResponse one = stop(target, request, address);
        response = response == null || !one.getStopStatus() ? one : response;
      }
      return response;
    } catch (AgentException e) {
      return failed(address, "nothing tells which process it is: " + e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return failed(address, "interrupted");
    }
  }

  /** No process is ended; the applications of the engine that is named are. */
  private EngineStopResponse noTicket(EngineStopRequest request, String address) {
    killApplications(request);
    if (isInCluster(request)) {
      return stopped(address, "its process is not here");
    }
    if (isProcess(request) && ecm.processes.seesAll() && ecm.processes.running(pid(request)) == null) {
      return stopped(address, "it does not run");
    }
    return failed(address, "no ticket of an engine there is known");
  }

  private EngineStopResponse stop(StopTarget target, EngineStopRequest request, String address)
      throws InterruptedException {
    // Behind hidepid a pid cannot be compared: the ticket decides alone.
    if (isProcess(request) && ecm.processes.seesAll() && !target.has(pid(request))) {
      if (!target.isAnother(pid(request))) {
        return failed(address, "nothing tells whether pid " + request.getIdentifier() + " is the engine of ticket " + target.ticket);
      }
      String text = "pid " + request.getIdentifier() + " is no engine there";
      log.info("{}: {}: nothing is signalled", address, text);
      killApplications(request);
      return stopped(address, text);
    }
    if (target.isAgents() && isStoppedByAgent(target.ticket, request, address)) {
      killApplications(request);
      return stopped(address, "stopped by its agent");
    }
    if (target.engine.isEmpty() && !isInCluster(request) && !ecm.processes.seesAll()) {
      return failed(address, "its process cannot be seen: want /proc without hidepid");
    }
    if (target.isStarting() && isStoppedByAgent(target.ticket, request, address)) {
      killApplications(request);
      return stopped(address, "it was still starting: its reservation was canceled, and what starts is ended");
    }
    boolean all = target.engine.size() <= MAX_JVMS;
    for (EngineProcess engine : target.engine.subList(0, Math.min(MAX_JVMS, target.engine.size()))) {
      all &= kill(request, engine);
    }
    if (target.engine.isEmpty() || isInCluster(request)) {
      killApplications(request);
    }
    if (!all) {
      return failed(address, "it still runs: " + target.engine);
    }
    return stopped(address, target.engine.isEmpty() ? "it does not run" + target.end() : "it was killed");
  }

  /** -1: what is told is no pid. */
  private static long pid(EngineStopRequest request) {
    try {
      return Long.parseLong(request.getIdentifier());
    } catch (NumberFormatException e) {
      return -1;
    }
  }

  private static boolean isInCluster(EngineStopRequest request) {
    return AMConstant.CLUSTER_PROCESS_MARK.equals(request.getIdentifierType());
  }

  private static boolean isProcess(EngineStopRequest request) {
    return AMConstant.PROCESS_MARK.equals(request.getIdentifierType())
        && StringUtils.isNotBlank(request.getIdentifier());
  }

  private boolean isStoppedByAgent(String id, EngineStopRequest request, String address)
      throws InterruptedException {
    String reason =
        "stopped by Linkis"
            + (StringUtils.isBlank(request.getUser()) ? "" : " for " + request.getUser());
    try {
      ecm.agent.stop(id, reason, GRACE, PATIENCE);
      return isOverSoon(id);
    } catch (AgentException e) {
      log.warn("engine {} cannot be stopped through the agent: {}", address, e.getMessage());
      return false;
    }
  }

  private boolean isOverSoon(String id) throws AgentException, InterruptedException {
    long end = System.nanoTime() + UNTIL_OVER.toNanos();
    while (System.nanoTime() < end) {
      AgentAllocation now = ecm.agent.get(id, PATIENCE);
      if (now.isOver()) {
        return true;
      }
      if (!now.stopError.isEmpty()) {
        log.warn("the agent could not stop {}: {}", now, now.stopError);
        return false;
      }
      Thread.sleep(ASK);
    }
    return false;
  }

  private void killApplications(EngineStopRequest request) {
    if (isInCluster(request)) {
      if (request.getIdentifier() != null) {
        GovernanceUtils.killYarnJobApp(new ArrayList<>(Collections.singletonList(request.getIdentifier())));
      }
    } else if (request.getLogDirSuffix() != null) {
      killYarnAppIdOfOneEc(request);
    }
  }

  /** Ends an engine that was found a moment ago. */
  void killNow(
      ServiceInstance instance, String user, String engineType, String logDir, EngineProcess engine) {
    EngineStopRequest request = new EngineStopRequest(instance, user);
    request.setEngineType(engineType);
    request.setLogDirSuffix(logDir);
    try {
      boolean ended = kill(request, engine);
      log.info("engine {}: {} {}", instance.getInstance(), engine, ended ? "was killed" : "still runs");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Ends a process as Linkis does it, and says whether it has ended. */
  private boolean kill(EngineStopRequest request, EngineProcess engine) throws InterruptedException {
    if (!ecm.processes.runs(engine)) {
      return true;
    }
    EngineStopRequest one = new EngineStopRequest(request.getServiceInstance(), request.getUser());
    one.setEngineType(request.getEngineType());
    one.setLogDirSuffix(StringUtils.defaultString(request.getLogDirSuffix()));
    one.setIdentifierType(AMConstant.PROCESS_MARK);
    one.setIdentifier(Long.toString(engine.pid));
    asLinkisDoes(one);
    long end = System.nanoTime() + UNTIL_KILLED.toNanos();
    while (ecm.processes.runs(engine)) {
      if (System.nanoTime() > end) {
        return false;
      }
      Thread.sleep(ASK);
    }
    return true;
  }

  /** Has Linkis kill a pid. */
  EngineStopResponse asLinkisDoes(EngineStopRequest request) {
    return super.dealEngineConnStop(request);
  }

  private static EngineStopResponse stopped(String address, String how) {
    return answer(true, "Kill engine " + address + " succeed: " + how + ".");
  }

  private static EngineStopResponse failed(String address, String why) {
    log.error("engine {} is not stopped: {}", address, why);
    return answer(false, "Kill engine " + address + " failed: " + why + ".");
  }

  private static EngineStopResponse answer(boolean stopped, String text) {
    EngineStopResponse response = new EngineStopResponse();
    response.setStopStatus(stopped);
    response.setMsg(text);
    return response;
  }
}
