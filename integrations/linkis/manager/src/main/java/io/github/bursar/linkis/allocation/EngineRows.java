package io.github.bursar.linkis.allocation;

import java.util.Collections;
import java.util.List;
import javax.sql.DataSource;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.metrics.NodeMetrics;
import org.apache.linkis.manager.common.entity.node.AMEMNode;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.dao.LabelManagerMapper;
import org.apache.linkis.manager.dao.ResourceManagerMapper;
import org.apache.linkis.manager.label.LabelManagerUtils;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.apache.linkis.manager.rm.service.LabelResourceService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.jdbc.core.JdbcOperations;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of one engine that the rest of Linkis reads: service instance, its ECM, its label, its
 * resource, and the record of what it used. They are what Linkis's own services write, with fewer
 * statements: a ticket is new, so nothing is looked for before it is inserted, and what was read once
 * is not read again. Rows of ECMs and of users are LedgerProjector's.
 */
public class EngineRows {
  private static final Logger log = LoggerFactory.getLogger(EngineRows.class);

  /**
   * Both rows of a resource or none. By the label, which has an index: Linkis's statement by the
   * resource reads, and locks, the rows of all engines. In the SQL of MySQL and MariaDB, as Linkis's
   * own.
   */
  static final String DELETE_RESOURCE =
      "DELETE lr, r FROM linkis_cg_manager_label l"
          + " JOIN linkis_cg_manager_label_resource lr ON lr.label_id = l.id"
          + " JOIN linkis_cg_manager_linkis_resources r ON r.id = lr.resource_id"
          + " WHERE l.label_key = ? AND l.label_value = ? AND r.id = ?";

  @Autowired LabelResourceService resources;
  @Autowired NodeManagerPersistence nodes;
  @Autowired NodeMetricManagerPersistence metrics;
  @Autowired LabelManagerMapper labelRows;
  @Autowired ResourceManagerMapper resourceRows;
  @Autowired PlatformTransactionManager transactions;
  private JdbcOperations database;
  private EngineRecords records;

  @Autowired
  void setDatabase(DataSource source) {
    setDatabase(new JdbcTemplate(source));
  }

  void setDatabase(JdbcOperations operations) {
    database = operations;
    records = new EngineRecords(operations);
  }

  /** What Linkis has booked as an engine's resource, and its ticket; null: nothing. */
  PersistenceResource resource(EngineInstanceLabel engine) {
    PersistenceLabel label = LabelManagerUtils.convertPersistenceLabel(engine);
    List<PersistenceResource> found = labelRows.getResourcesByLabel(label.getLabelKey(), label.getStringValue());
    return found.isEmpty() ? null : found.get(0);
  }

  /** The engine's node, without its ECM; null: there is none. */
  Node node(EngineInstanceLabel engine) {
    return nodes.getNode(engine.getServiceInstance());
  }

  /** An engine was granted: its rows under the ticket's name, until it says its own. All or none. */
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
    new TransactionTemplate(transactions)
        .executeWithoutResult(
            t -> {
              PersistenceLabel labelRow = LabelManagerUtils.convertPersistenceLabel(label);
              labelRows.registerLabel(labelRow);
              if (labelRow.getId() <= 0) { // it is inserted unless there is one
                throw new IllegalStateException("the label of ticket " + ticket + " is there already");
              }
              List<Integer> ids = Collections.singletonList(labelRow.getId());
              PersistenceResource row = ResourceUtils.toPersistenceResource(resource);
              row.setTicketId(ticket);
              row.setCreator(source(labels));
              row.setUpdator(source(labels));
              resourceRows.registerResource(row);
              labelRows.addLabelsAndResource(row.getId(), ids);
              // Last: Linkis searches these tables by a column without an index, and each start
              // and each end of an engine waits there for every row that is not committed.
              labelRows.addLabelServiceInstance(ticket, ids);
              nodes.addEngineNode(engine);
            });
    labels.getLabels().add(label);
    records.requested(labels, ticket, resource.getLockedResource());
  }

  /** The engine runs: what was locked is used. */
  void used(RMLabelContainer labels, PersistenceResource stored, NodeResource row, Resource used) {
    row.setUsedResource(used);
    row.setLockedResource(Resource.getZeroResource(used));
    resourceRows.nodeResourceUpdateByResourceId(stored.getId(), ResourceUtils.toPersistenceResource(row));
    records.used(labels, stored.getTicketId(), used);
  }

  /** The engine is gone. */
  void released(RMLabelContainer labels, PersistenceResource stored, EngineNode engine, Resource released) {
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
    records.released(labels, stored.getTicketId(), released, status == null ? NodeStatus.Failed : status, message);
    PersistenceLabel label = LabelManagerUtils.convertPersistenceLabel(labels.getEngineInstanceLabel());
    database.update(DELETE_RESOURCE, label.getLabelKey(), label.getStringValue(), stored.getId());
  }

  private static String source(RMLabelContainer labels) {
    return labels.getCombinedResourceLabel() == null ? "" : labels.getCombinedResourceLabel().getStringValue();
  }
}
