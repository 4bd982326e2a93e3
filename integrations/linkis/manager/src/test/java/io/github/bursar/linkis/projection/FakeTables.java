package io.github.bursar.linkis.projection;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabelRel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLock;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.persistence.LabelManagerPersistence;
import org.apache.linkis.manager.persistence.LockManagerPersistence;
import org.apache.linkis.manager.persistence.ResourceLabelPersistence;
import org.apache.linkis.manager.persistence.ResourceManagerPersistence;
import org.junit.jupiter.api.Assumptions;

/** Linkis's tables of labels and resources, in memory, written as its statements write them. */
final class FakeTables {
  final LabelManagerPersistence labels = mock(LabelManagerPersistence.class);
  final ResourceManagerPersistence resources = mock(ResourceManagerPersistence.class);
  final ResourceLabelPersistence labelResources = mock(ResourceLabelPersistence.class);
  final LockManagerPersistence locks = mock(LockManagerPersistence.class);
  /** By "key value". */
  final Map<String, PersistenceResource> rows = new TreeMap<>();
  final Set<String> held = ConcurrentHashMap.newKeySet();
  int writes;
  private int ids;

  FakeTables() {
    Assumptions.assumeTrue(new LoadInstanceResource(7, 0, 0).getMemory() == 7, "these are stubs of Linkis");
    when(labels.getLabelByPattern(any(), any(), any(), any())).thenAnswer(call -> {
      List<PersistenceLabelRel> list = new ArrayList<>();
      String key = call.getArgument(1);
      rows.forEach((name, r) -> {
        if (name.startsWith(key + " ")) {
          PersistenceLabelRel l = new PersistenceLabelRel();
          l.setLabelKey(key);
          l.setStringValue(name.substring(key.length() + 1));
          l.setResourceId(r.getId());
          list.add(l);
        }
      });
      return list;
    });
    when(resources.getResourceByLabels(any())).thenAnswer(call -> {
      List<PersistenceResource> list = new ArrayList<>();
      for (Label<?> l : call.<List<Label<?>>>getArgument(0)) {
        list.add(rows.get(name(l)));
      }
      return list;
    });
    doAnswer(call -> {
      PersistenceLabel label = call.getArgument(0);
      PersistenceResource r = call.getArgument(1);
      PersistenceResource old = rows.get(name(label));
      if (old != null) { // an update leaves these
        r.setId(old.getId());
        r.setResourceType(old.getResourceType());
        r.setCreator(old.getCreator());
      } else {
        r.setId(++ids);
        r.setCreator(r.getUpdator());
      }
      rows.put(name(label), r);
      writes++;
      return null;
    }).when(labelResources).setResourceToLabel(any(), any());
    doAnswer(call -> rows.remove(name(call.getArgument(0)))).when(labelResources).removeResourceByLabel(any());
    when(locks.lock(any(), any())).thenAnswer(call -> held.add(call.<PersistenceLock>getArgument(0).getLockObject()));
    doAnswer(call -> held.remove(call.<PersistenceLock>getArgument(0).getLockObject())).when(locks).unlock(any());
  }

  private static String name(Label<?> label) {
    return label.getLabelKey() + " " + label.getStringValue();
  }

  LinkisRows access() {
    return new LinkisRows(labels, resources, labelResources, locks);
  }

  /** "max min used locked left" of a row. */
  String row(String name) {
    PersistenceResource r = rows.get(name);
    if (r == null) {
      return "none";
    }
    return r.getResourceType() + " max " + r.getMaxResource() + " min " + r.getMinResource() + " used " + r.getUsedResource() + " locked "
        + r.getLockedResource() + " left " + r.getLeftResource();
  }
}
