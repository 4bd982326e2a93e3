package io.github.bursar.linkis.allocation;

import java.sql.Timestamp;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.linkis.governance.common.utils.ECPathUtils;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.apache.linkis.manager.rm.utils.RMUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.JdbcOperations;

/**
 * Linkis's record of what engines asked for, used and gave back. The rows are those that its
 * ResourceLogService writes, which reads each one before it writes it, and writes the first one
 * twice. If a record cannot be written, Linkis goes on without it; so does this.
 */
final class EngineRecords {
  private static final Logger log = LoggerFactory.getLogger(EngineRecords.class);

  static final String INSERT =
      "INSERT INTO linkis_cg_ec_resource_info_record (label_value, create_user, ticket_id, service_instance,"
          + " ecm_instance, request_times, request_resource, used_times, release_times, log_dir_suffix, status)"
          + " VALUES (?, ?, ?, ?, ?, 1, ?, 0, 0, ?, ?)";

  /** A final status is never overwritten. */
  private static final String UPDATE =
      "UPDATE linkis_cg_ec_resource_info_record SET service_instance = ?, ecm_instance = COALESCE(?, ecm_instance),"
          + " status = CASE WHEN status IN ("
          + Arrays.stream(NodeStatus.values()).filter(NodeStatus::isCompleted).map(s -> "'" + s + "'").collect(Collectors.joining(", "))
          + ") THEN status ELSE ? END, ";

  static final String USED = UPDATE + "used_times = used_times + 1, used_resource = ?, used_time = ? WHERE ticket_id = ?";
  static final String RELEASED =
      UPDATE + "release_times = release_times + 1, released_resource = ?, release_time = ?, metrics = ? WHERE ticket_id = ?";

  private final JdbcOperations database;

  EngineRecords(JdbcOperations database) {
    this.database = database;
  }

  void requested(RMLabelContainer labels, String ticket, Resource resource) {
    write(
        labels,
        ticket,
        INSERT,
        () ->
            new Object[] {
              labels.getCombinedResourceLabel().getStringValue(),
              labels.getUserCreatorLabel() == null ? "" : labels.getUserCreatorLabel().getUser(),
              ticket,
              ticket,
              ecm(labels),
              resource.toJson(),
              ECPathUtils.getECLogDirSuffix(labels.getEngineTypeLabel(), labels.getUserCreatorLabel(), ticket),
              NodeStatus.Starting.toString()
            });
  }

  void used(RMLabelContainer labels, String ticket, Resource resource) {
    write(
        labels,
        ticket,
        USED,
        () -> new Object[] {engine(labels), ecm(labels), NodeStatus.Running.toString(), resource.toJson(), now(), ticket});
  }

  void released(RMLabelContainer labels, String ticket, Resource resource, NodeStatus status, String metrics) {
    write(
        labels,
        ticket,
        RELEASED,
        () -> new Object[] {engine(labels), ecm(labels), status.toString(), resource.toJson(), now(), metrics, ticket});
  }

  private interface Values {
    Object[] get();
  }

  private void write(RMLabelContainer labels, String ticket, String statement, Values values) {
    if (!Boolean.TRUE.equals(RMUtils.RM_RESOURCE_ACTION_RECORD().getValue()) || labels.getCombinedResourceLabel() == null) {
      return;
    }
    try {
      if (database.update(statement, values.get()) == 0) {
        log.info("engine {} has no record", ticket);
      }
    } catch (RuntimeException e) {
      log.warn("the record of engine {} cannot be written", ticket, e);
    }
  }

  private static String engine(RMLabelContainer labels) {
    return labels.getEngineInstanceLabel().getInstance();
  }

  private static String ecm(RMLabelContainer labels) {
    EMInstanceLabel ecm = labels.getEMInstanceLabel();
    return ecm == null ? null : ecm.getInstance();
  }

  private static Timestamp now() {
    return new Timestamp(System.currentTimeMillis());
  }
}
