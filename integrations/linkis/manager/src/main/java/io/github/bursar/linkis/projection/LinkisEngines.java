package io.github.bursar.linkis.projection;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.governance.common.conf.GovernanceCommonConf;
import org.apache.linkis.manager.am.service.ECResourceInfoService;
import org.apache.linkis.manager.am.service.EMEngineService;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.metrics.NodeMetrics;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.protocol.engine.EngineStopRequest;
import org.apache.linkis.manager.common.utils.ManagerUtils;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The engines that Linkis has, and how it ends them. */
class LinkisEngines {
  /** What was done to end one. */
  enum Ended {
    /** It was not there any more. */
    GONE,
    /** Its rows are cleared. */
    CLEARED,
    /** Its ECM was asked to stop it, and its rows are cleared. */
    STOPPED
  }

  private static final Logger log = LoggerFactory.getLogger(LinkisEngines.class);

  private final NodeManagerPersistence nodes;
  private final NodeMetricManagerPersistence metrics;
  private final NodeLabelService labels;
  private final EngineStopService stop;
  private final EMEngineService ecms;
  private final ECResourceInfoService records;
  private final LinkisRows rows;

  LinkisEngines(
      NodeManagerPersistence nodes,
      NodeMetricManagerPersistence metrics,
      NodeLabelService labels,
      EngineStopService stop,
      EMEngineService ecms,
      ECResourceInfoService records,
      LinkisRows rows) {
    this.nodes = nodes;
    this.metrics = metrics;
    this.labels = labels;
    this.stop = stop;
    this.ecms = ecms;
    this.records = records;
    this.rows = rows;
  }

  /** All rows of engines and ECMs. */
  List<Node> nodes() {
    return nodes.getAllNodes();
  }

  /** Those of a list that are ECMs. */
  static List<Node> ecms(List<Node> nodes) {
    String name = GovernanceCommonConf.ENGINE_CONN_MANAGER_SPRING_NAME().getValue();
    return nodes.stream().filter(n -> name.equals(n.getServiceInstance().getApplicationName())).collect(Collectors.toList());
  }

  /** Whether there is an engine with this ticket now. */
  boolean has(String ticket) {
    return nodes.getEngineNodeByTicketId(ticket) != null;
  }

  /** Whether an engine with this ticket was ever made here. */
  boolean wasOurs(String ticket) {
    return records.getECResourceInfoRecord(ticket) != null;
  }

  /**
   * Ends the engine with a ticket by Linkis's own services: one manager does it, others that try at
   * the same time find it gone.
   *
   * @param processEnded whether its process is said to have ended. Who may release its allocation
   *     can say so, as can an engine of itself
   * @param byPid whether it was confirmed by its pid, which the ECM's jar does: such an ECM finds
   *     out whose process a pid is before it signals. It is asked to stop the engine in any case;
   *     another one only if nobody says that it has ended, as its pid may be another's by now
   * @param well whether it ended with success
   */
  Ended end(String ticket, boolean processEnded, boolean byPid, boolean well) {
    Ended[] done = {Ended.GONE};
    boolean locked = rows.locked("bursar-ended-" + ticket, () -> done[0] = endLocked(ticket, processEnded, byPid, well));
    if (!locked) {
      throw new IllegalStateException("another manager has its lock");
    }
    return done[0];
  }

  private Ended endLocked(String ticket, boolean processEnded, boolean byPid, boolean well) {
    // By its ticket: another engine may have its host and port by now.
    EngineNode engine = nodes.getEngineNodeByTicketId(ticket);
    if (engine == null) {
      return Ended.GONE;
    }
    NodeStatus status = status(engine);
    boolean ended = processEnded || NodeStatus.isCompleted(status);
    boolean asked = false;
    if (!ended) {
      stop.stopEngine(new EngineStopRequest(engine.getServiceInstance(), ManagerUtils.getAdminUser()), null);
      if (nodes.getEngineNodeByTicketId(ticket) == null) {
        return Ended.STOPPED;
      }
    } else if (byPid) {
      asked = askEcm(ticket, engine.getServiceInstance());
    }
    engine.setLabels(labels.getNodeLabels(engine.getServiceInstance()));
    engine.setNodeStatus(NodeStatus.isCompleted(status) ? status : well ? NodeStatus.Success : NodeStatus.Failed);
    stop.engineConnInfoClear(engine);
    return asked ? Ended.STOPPED : Ended.CLEARED;
  }

  /** stopEngine does this, too, and then writes into the engine's record that it was shut down. */
  private boolean askEcm(String ticket, ServiceInstance address) {
    try {
      EngineNode engine = nodes.getEngineNode(address);
      if (engine == null || !ticket.equals(engine.getTicketId())) {
        return false;
      }
      ecms.stopEngine(engine, engine.getEMNode());
      return true;
    } catch (Exception e) { // Scala's throw what they do not declare
      log.info("engine {} is said to have ended, and its ECM could not be asked: {}", ticket, e.toString());
      return false;
    }
  }

  private NodeStatus status(EngineNode engine) {
    NodeMetrics m = metrics.getNodeMetrics(engine);
    return m == null || m.getStatus() == null ? NodeStatus.Starting : NodeStatus.values()[m.getStatus()];
  }
}
