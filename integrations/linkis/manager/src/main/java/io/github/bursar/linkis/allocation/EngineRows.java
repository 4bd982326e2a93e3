package io.github.bursar.linkis.allocation;

import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.metrics.NodeMetrics;
import org.apache.linkis.manager.common.entity.node.AMEMNode;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.apache.linkis.manager.rm.service.LabelResourceService;
import org.apache.linkis.manager.rm.service.impl.ChangeType;
import org.apache.linkis.manager.rm.service.impl.ResourceLogService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Autowired;

/**
 * The rows of one engine that the rest of Linkis reads: service instance, its ECM, its label, its
 * resource, and the record of what it used. Rows of ECMs and of users are LedgerProjector's.
 */
public class EngineRows {
  private static final Logger log = LoggerFactory.getLogger(EngineRows.class);

  @Autowired LabelResourceService resources;
  @Autowired NodeManagerPersistence nodes;
  @Autowired NodeLabelService nodeLabels;
  @Autowired NodeMetricManagerPersistence metrics;
  @Autowired ResourceLogService record;

  /** What Linkis has booked as an engine's resource, and its ticket. */
  PersistenceResource resource(EngineInstanceLabel engine) {
    return resources.getPersistenceResource(engine);
  }

  /** The engine's node; null: there is none. */
  EngineNode node(EngineInstanceLabel engine) {
    return nodes.getEngineNode(engine.getServiceInstance());
  }

  /** An engine was granted: its rows under the ticket's name, until it says its own. */
  void granted(RMLabelContainer labels, String ticket, NodeResource resource) {
    AMEMNode ecm = new AMEMNode();
    ecm.setServiceInstance(labels.getEMInstanceLabel().getServiceInstance());
    ServiceInstance instance = new ServiceInstance();
    instance.setApplicationName(labels.getEngineServiceName());
    instance.setInstance(ticket);
    AMEngineNode engine = new AMEngineNode();
    engine.setEMNode(ecm);
    engine.setServiceInstance(instance);
    engine.setNodeResource(resource);
    engine.setTicketId(ticket);
    EngineInstanceLabel label = LabelBuilderFactoryContext.getLabelBuilderFactory().createLabel(EngineInstanceLabel.class);
    label.setServiceName(labels.getEngineServiceName());
    label.setInstance(ticket);
    try {
      nodes.addEngineNode(engine);
      nodeLabels.addLabelToNode(instance, label);
      resources.setEngineConnLabelResource(label, resource, source(labels));
    } catch (RuntimeException e) {
      forget(engine, label);
      throw e;
    }
    labels.getLabels().add(label);
    record.recordUserResourceAction(labels, ticket, ChangeType.ENGINE_REQUEST(), resource.getLockedResource(), NodeStatus.Starting, null);
  }

  /** Takes back what was written of an engine that will not be. */
  private void forget(AMEngineNode engine, EngineInstanceLabel label) {
    attempt("resource", () -> resources.removeResourceByLabel(label));
    attempt("labels", () -> nodeLabels.removeLabelsFromNode(engine.getServiceInstance(), true));
    attempt("node", () -> nodes.deleteEngineNode(engine));
  }

  private static void attempt(String what, Runnable step) {
    try {
      step.run();
    } catch (RuntimeException e) {
      log.debug("{} of an engine whose rows could not be written", what, e);
    }
  }

  /** The engine runs: what was locked is used. */
  void used(RMLabelContainer labels, String ticket, NodeResource row, Resource used) {
    row.setUsedResource(used);
    row.setLockedResource(Resource.getZeroResource(used));
    resources.setLabelResource(labels.getEngineInstanceLabel(), row, source(labels));
    record.recordUserResourceAction(labels, ticket, ChangeType.ENGINE_INIT(), used, NodeStatus.Running, null);
  }

  /** The engine is gone. */
  void released(RMLabelContainer labels, String ticket, EngineNode engine, Resource released) {
    String message = "";
    NodeStatus status = engine.getNodeStatus();
    try {
      NodeMetrics m = metrics.getNodeMetrics(engine);
      if (m != null && m.getHeartBeatMsg() != null) {
        message = m.getHeartBeatMsg();
      }
      if (status == null && m != null && m.getStatus() != null && m.getStatus() >= 0 && m.getStatus() < NodeStatus.values().length) {
        NodeStatus last = NodeStatus.values()[m.getStatus()];
        status = NodeStatus.isCompleted(last) ? last : NodeStatus.Failed;
      }
    } catch (RuntimeException e) {
      log.warn("no metrics of {}", engine.getServiceInstance(), e);
    }
    record.recordUserResourceAction(labels, ticket, ChangeType.ENGINE_CLEAR(), released, status == null ? NodeStatus.Failed : status, message);
    resources.removeResourceByLabel(labels.getEngineInstanceLabel());
  }

  private static String source(RMLabelContainer labels) {
    return labels.getCombinedResourceLabel() == null ? "" : labels.getCombinedResourceLabel().getStringValue();
  }
}
