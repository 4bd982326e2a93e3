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
 * Stops an engine by its allocation, through the agent, which signals only what is the engine's now.
 * An engine without one is stopped as Linkis does it, if a process is, at that moment, the engine of
 * the address that was named. A pid that an engine had at some time is never signalled.
 */
public class BursarEngineConnKillService extends DefaultEngineConnKillService {
  private static final Logger log = LoggerFactory.getLogger(BursarEngineConnKillService.class);

  /** Between SIGTERM and SIGKILL. */
  private static final Duration GRACE = Duration.ofSeconds(10);

  /** From the order until the engine is over: the grace, and the agent's reports. */
  private static final Duration UNTIL_OVER = Duration.ofSeconds(25);

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
    if (isAnother(request, address)) {
      log.info("{}: pid {} is no engine there: nothing is signalled", address, request.getIdentifier());
      killApplications(request);
      return answer(true, "Kill engine " + address + " succeed: pid " + request.getIdentifier() + " is no engine there.");
    }
    try {
      List<String> allocations = allocationsAt(address);
      if (!allocations.isEmpty() && stopped(allocations, request)) {
        killApplications(request);
        return answer(true, "Kill engine " + address + " succeed: stopped by its agent.");
      }
    } catch (AgentException e) {
      log.warn("engine {} cannot be stopped through the agent: {}", address, e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return answer(false, "Kill engine " + address + " failed: interrupted.");
    }
    return byProcess(request, address);
  }

  private static boolean isProcess(EngineStopRequest request) {
    return AMConstant.PROCESS_MARK.equals(request.getIdentifierType())
        && StringUtils.isNotBlank(request.getIdentifier());
  }

  /** Whether the engine that is meant has ended. Another one may have its address by now. */
  private boolean isAnother(EngineStopRequest request, String address) {
    if (!isProcess(request) || !ecm.processes.seesAll()) {
      return false;
    }
    return isAnother(ecm.processes.enginesAt(port(address)), request.getIdentifier());
  }

  /** Whether none of the processes at an address has a pid. */
  static boolean isAnother(List<EngineProcess> there, String pid) {
    return there.stream().noneMatch(engine -> Long.toString(engine.pid).equals(pid));
  }

  private static String port(String address) {
    return address.substring(address.lastIndexOf(':') + 1);
  }

  private List<String> allocationsAt(String address) throws AgentException {
    String ticket = ecm.tickets.get(address);
    if (ticket != null) {
      return Collections.singletonList(ticket);
    }
    // This ECM was restarted since.
    List<String> ids = new ArrayList<>();
    for (AgentAllocation allocation : ecm.agent.at(address, PATIENCE)) {
      ids.add(allocation.id);
    }
    return ids;
  }

  private boolean stopped(List<String> allocations, EngineStopRequest request)
      throws AgentException, InterruptedException {
    String reason =
        "stopped by Linkis"
            + (StringUtils.isBlank(request.getUser()) ? "" : " for " + request.getUser());
    boolean all = true;
    for (String id : allocations) {
      AgentAllocation before = ecm.agent.get(id, PATIENCE);
      if (before.isActive()) {
        ecm.agent.stop(id, reason, GRACE, PATIENCE);
        all &= isOverSoon(id);
      } else {
        all = false; // it has no engine yet, or none any more, as far as the agent knows
      }
    }
    return all;
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
    if (AMConstant.CLUSTER_PROCESS_MARK.equals(request.getIdentifierType())) {
      if (request.getIdentifier() != null) {
        GovernanceUtils.killYarnJobApp(new ArrayList<>(Collections.singletonList(request.getIdentifier())));
      }
    } else if (request.getLogDirSuffix() != null) {
      killYarnAppIdOfOneEc(request);
    }
  }

  private EngineStopResponse byProcess(EngineStopRequest request, String address) {
    if (!ecm.processes.seesAll()) {
      return super.dealEngineConnStop(request);
    }
    List<EngineProcess> there = ecm.processes.enginesAt(port(address));
    if (there.isEmpty()) {
      log.info("no engine runs at {}: nothing is killed", address);
      killApplications(request);
      return answer(true, "Kill engine " + address + " succeed: it does not run.");
    }
    if (there.size() > 1) {
      log.error("{} processes say that they are the engine at {}: none is killed: {}", there.size(), address, there);
      return answer(false, "Kill engine " + address + " failed: more than one process says that it is this engine.");
    }
    EngineProcess engine = there.get(0);
    if (!AMConstant.CLUSTER_PROCESS_MARK.equals(request.getIdentifierType())) {
      request.setIdentifierType(AMConstant.PROCESS_MARK);
      request.setIdentifier(Long.toString(engine.pid));
    }
    return super.dealEngineConnStop(request);
  }

  /** Ends an engine that was found a moment ago, as Linkis does it. */
  void killNow(
      ServiceInstance instance, String user, String engineType, String logDir, EngineProcess engine) {
    if (!ecm.processes.runs(engine)) {
      return;
    }
    EngineStopRequest request = new EngineStopRequest(instance, user);
    request.setEngineType(engineType);
    request.setLogDirSuffix(logDir);
    request.setIdentifierType(AMConstant.PROCESS_MARK);
    request.setIdentifier(Long.toString(engine.pid));
    EngineStopResponse response = super.dealEngineConnStop(request);
    log.info("engine {}: {}", instance.getInstance(), response.getMsg());
  }

  private static EngineStopResponse answer(boolean stopped, String text) {
    EngineStopResponse response = new EngineStopResponse();
    response.setStopStatus(stopped);
    response.setMsg(text);
    return response;
  }
}
