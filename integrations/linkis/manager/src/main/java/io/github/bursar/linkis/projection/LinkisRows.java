package io.github.bursar.linkis.projection;

import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabelRel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLock;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.persistence.LabelManagerPersistence;
import org.apache.linkis.manager.persistence.LockManagerPersistence;
import org.apache.linkis.manager.persistence.ResourceLabelPersistence;
import org.apache.linkis.manager.persistence.ResourceManagerPersistence;

/** Resources of labels in Linkis's tables: read in bulk, written where they differ. */
final class LinkisRows {
  private static final int CHUNK = 500;
  private static final String LOCK = "bursar-projector";
  private static final long LOCK_MILLIS = 1000;

  private final LabelManagerPersistence labels;
  private final ResourceManagerPersistence resources;
  private final ResourceLabelPersistence labelResources;
  private final LockManagerPersistence locks;

  LinkisRows(
      LabelManagerPersistence labels,
      ResourceManagerPersistence resources,
      ResourceLabelPersistence labelResources,
      LockManagerPersistence locks) {
    this.labels = labels;
    this.resources = resources;
    this.labelResources = labelResources;
    this.locks = locks;
  }

  /** A label and the row of its resource. */
  static final class Row {
    final PersistenceLabel label;
    final PersistenceResource resource;

    Row(PersistenceLabel label, PersistenceResource resource) {
      this.label = label;
      this.resource = resource;
    }

    CommonNodeResource parsed() {
      return ResourceUtils.fromPersistenceResource(resource);
    }
  }

  /** The rows of all labels with this key, by the label's value. */
  Map<String, Row> withKey(String labelKey) {
    List<PersistenceLabelRel> found = labels.getLabelByPattern("%", labelKey, null, null);
    Map<Integer, PersistenceResource> byId = new HashMap<>();
    for (int i = 0; i < found.size(); i += CHUNK) {
      for (PersistenceResource r : resources.getResourceByLabels(found.subList(i, Math.min(found.size(), i + CHUNK)))) {
        byId.put(r.getId(), r);
      }
    }
    Map<String, Row> rows = new TreeMap<>();
    for (PersistenceLabelRel label : found) {
      PersistenceResource r = byId.get(label.getResourceId());
      if (r != null) {
        rows.put(label.getStringValue(), new Row(label, r));
      }
    }
    return rows;
  }

  /** The row as it is now; empty: it is gone. */
  Optional<Row> again(Row row) {
    return resources.getResourceByLabels(Collections.singletonList(row.label)).stream()
        .filter(r -> Objects.equals(r.getId(), row.resource.getId()))
        .findFirst()
        .map(r -> new Row(row.label, r));
  }

  /**
   * Makes the row of a label say this, if it does not yet. In a row that is there, what is
   * protected stays: that is Linkis's own. What is expected stays unless it is set here.
   *
   * @param row the row that is there; null: none
   * @param source who it is from, in the columns that Linkis has for that
   * @return whether something was written
   */
  boolean put(PersistenceLabel label, Row row, CommonNodeResource want, String source) {
    PersistenceResource r = ResourceUtils.toPersistenceResource(want);
    r.setUpdator(source);
    r.setUpdateTime(new Date());
    if (row == null) {
      return insert(label, r);
    }
    if (!r.getResourceType().equals(row.resource.getResourceType())) {
      // an update would leave the type as it was
      labelResources.removeResourceByLabel(row.label);
      return insert(label, r);
    }
    r.setMinResource(row.resource.getMinResource());
    if (r.getExpectedResource() == null) {
      r.setExpectedResource(row.resource.getExpectedResource());
    }
    if (same(r, row.resource)) {
      return false;
    }
    labelResources.setResourceToLabel(row.label, r);
    return true;
  }

  private static boolean same(PersistenceResource a, PersistenceResource b) {
    return Objects.equals(a.getMaxResource(), b.getMaxResource())
        && Objects.equals(a.getUsedResource(), b.getUsedResource())
        && Objects.equals(a.getLockedResource(), b.getLockedResource())
        && Objects.equals(a.getLeftResource(), b.getLeftResource())
        && Objects.equals(a.getExpectedResource(), b.getExpectedResource());
  }

  /** Only one manager at a time adds a row: Linkis's tables would keep both. */
  private boolean insert(PersistenceLabel label, PersistenceResource r) {
    return locked(LOCK, () -> labelResources.setResourceToLabel(label, r));
  }

  /** Runs it under a lock of Linkis that all managers see; false if another one has the lock. */
  boolean locked(String name, Runnable action) {
    PersistenceLock lock = new PersistenceLock();
    lock.setLockObject(name);
    lock.setCreateTime(new Date());
    lock.setUpdateTime(new Date());
    lock.setCreator("bursar");
    lock.setUpdator("bursar");
    if (!Boolean.TRUE.equals(locks.lock(lock, LOCK_MILLIS))) {
      return false;
    }
    try {
      action.run();
    } finally {
      locks.unlock(lock);
    }
    return true;
  }

}
