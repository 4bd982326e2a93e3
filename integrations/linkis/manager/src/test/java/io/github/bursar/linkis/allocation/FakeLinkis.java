package io.github.bursar.linkis.allocation;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.persistence.ECResourceInfoRecord;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.dao.LabelManagerMapper;
import org.apache.linkis.manager.dao.ResourceManagerMapper;
import org.apache.linkis.manager.label.LabelManagerUtils;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.label.service.ResourceLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.apache.linkis.manager.rm.service.impl.LabelResourceServiceImpl;
import org.springframework.jdbc.core.JdbcOperations;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.SimpleTransactionStatus;

/** Linkis's rows in memory, below Linkis's own services: resources are stored as its JSON. */
final class FakeLinkis {
  final Map<String, PersistenceResource> resources = new ConcurrentHashMap<>();
  final Map<String, EngineNode> nodes = new ConcurrentHashMap<>();
  final Map<String, Integer> labels = new ConcurrentHashMap<>();
  final Map<String, List<?>> nodeLabels = new ConcurrentHashMap<>();
  final Map<String, ECResourceInfoRecord> records = new ConcurrentHashMap<>();
  private final Map<Integer, PersistenceResource> unlabeled = new ConcurrentHashMap<>();
  private final AtomicInteger ids = new AtomicInteger();
  private volatile List<Map<String, ?>> before;
  volatile Throwable addEngineNodeFails;
  volatile RuntimeException resourceFails;
  volatile RuntimeException readFails;
  /** What a grant wrote, in this order. */
  final List<String> written = new CopyOnWriteArrayList<>();

  EngineRows rows() {
    EngineRows rows = new EngineRows();
    LabelResourceServiceImpl ecms = new LabelResourceServiceImpl();
    ecms.resourceLabelService_$eq(fake(ResourceLabelService.class, (proxy, method, args) -> ecm(method, args)));
    rows.resources = ecms;
    rows.transactions = fake(PlatformTransactionManager.class, (proxy, method, args) -> transaction(method.getName()));
    rows.labelRows = fake(LabelManagerMapper.class, (proxy, method, args) -> label(method, args));
    rows.resourceRows = fake(ResourceManagerMapper.class, (proxy, method, args) -> resource(method, args));
    rows.nodes =
        fake(
            NodeManagerPersistence.class,
            (proxy, method, args) -> {
              switch (method.getName()) {
                case "addEngineNode":
                  if (addEngineNodeFails != null) {
                    throw addEngineNodeFails;
                  }
                  written.add("addEngineNode");
                  nodes.put(((EngineNode) args[0]).getServiceInstance().getInstance(), (EngineNode) args[0]);
                  return null;
                case "getNode":
                  return nodes.get(((ServiceInstance) args[0]).getInstance());
                default:
                  throw new UnsupportedOperationException(method.toString());
              }
            });
    rows.metrics = fake(NodeMetricManagerPersistence.class, (proxy, method, args) -> null);
    rows.setDatabase(fake(JdbcOperations.class, (proxy, method, args) -> own((String) args[0], (Object[]) args[1])));
    return rows;
  }

  /** What was written since it began goes if it is rolled back. One at a time is enough here. */
  private Object transaction(String step) {
    if (step.equals("getTransaction")) {
      before = Arrays.asList(new HashMap<>(nodes), new HashMap<>(labels), new HashMap<>(nodeLabels), new HashMap<>(resources));
      return new SimpleTransactionStatus();
    }
    if (step.equals("rollback")) {
      restore(nodes, before.get(0));
      restore(labels, before.get(1));
      restore(nodeLabels, before.get(2));
      restore(resources, before.get(3));
    }
    return null;
  }

  @SuppressWarnings("unchecked")
  private static <V> void restore(Map<String, V> rows, Map<String, ?> before) {
    rows.clear();
    rows.putAll((Map<String, V>) before);
  }

  private Object label(Method method, Object[] args) {
    switch (method.getName()) {
      case "registerLabel":
        PersistenceLabel label = (PersistenceLabel) args[0];
        written.add("registerLabel");
        label.setId(ids.incrementAndGet());
        labels.put(label.getStringValue(), label.getId());
        return null;
      case "addLabelServiceInstance":
        written.add("addLabelServiceInstance");
        nodeLabels.put((String) args[0], (List<?>) args[1]);
        return null;
      case "addLabelsAndResource":
        written.add("addLabelsAndResource");
        String value = labels.entrySet().stream().filter(e -> ((List<?>) args[1]).contains(e.getValue())).findFirst().get().getKey();
        resources.put(value, unlabeled.remove((Integer) args[0]));
        return null;
      case "getResourcesByLabel":
        if (readFails != null) {
          throw readFails;
        }
        PersistenceResource found = resources.get((String) args[1]);
        return found == null ? Collections.emptyList() : Collections.singletonList(found);
      default:
        throw new UnsupportedOperationException(method.toString());
    }
  }

  private Object resource(Method method, Object[] args) {
    switch (method.getName()) {
      case "registerResource":
        if (resourceFails != null) {
          throw resourceFails;
        }
        written.add("registerResource");
        PersistenceResource made = (PersistenceResource) args[0];
        made.setId(ids.incrementAndGet());
        made.setCreateTime(new Date());
        unlabeled.put(made.getId(), made);
        return null;
      case "nodeResourceUpdateByResourceId":
        PersistenceResource said = (PersistenceResource) args[1];
        PersistenceResource row = byId((Integer) args[0]).getValue();
        row.setMaxResource(said.getMaxResource());
        row.setMinResource(said.getMinResource());
        row.setUsedResource(said.getUsedResource());
        row.setLeftResource(said.getLeftResource());
        row.setExpectedResource(said.getExpectedResource());
        row.setLockedResource(said.getLockedResource());
        return null;
      default:
        throw new UnsupportedOperationException(method.toString());
    }
  }

  /** The statements that are not Linkis's. The fake has a resource and its label's row in one. */
  private Object own(String statement, Object[] values) {
    if (!statement.equals(EngineRows.DELETE_RESOURCE)) {
      return record(statement, values);
    }
    PersistenceResource row = resources.get((String) values[1]);
    return row != null && values[2].equals(row.getId()) && resources.remove((String) values[1], row) ? 2 : 0;
  }

  private Object record(String statement, Object[] values) {
    String ticket = (String) (statement.equals(EngineRecords.INSERT) ? values[2] : values[values.length - 1]);
    ECResourceInfoRecord row = records.computeIfAbsent(ticket, t -> new ECResourceInfoRecord());
    switch (statement) {
      case EngineRecords.INSERT:
        row.setRequestTimes(1);
        row.setStatus((String) values[7]);
        break;
      default:
        row.setServiceInstance((String) values[0]);
        row.setStatus((String) values[2]);
        if (statement.equals(EngineRecords.USED)) {
          row.setUsedResource((String) values[3]);
        } else {
          row.setReleasedResource((String) values[3]);
        }
    }
    return 1;
  }

  private Object ecm(Method method, Object[] args) {
    String value = ((Label<?>) args[0]).getStringValue();
    switch (method.getName()) {
      case "getResourceByLabel":
        return resources.containsKey(value) ? ResourceUtils.fromPersistenceResource(resources.get(value)) : null;
      case "setResourceToLabel":
        resources.put(value, ResourceUtils.toPersistenceResource((NodeResource) args[1]));
        return null;
      case "removeResourceByLabel":
        resources.remove(value);
        return null;
      default:
        throw new UnsupportedOperationException(method.toString());
    }
  }

  private Map.Entry<String, PersistenceResource> byId(Integer id) {
    return resources.entrySet().stream().filter(e -> id.equals(e.getValue().getId())).findFirst().get();
  }

  /** The engine says where it is: from then on its rows have that name. Returns its label. */
  EngineInstanceLabel started(String ticket, String address, String identifier) {
    EngineInstanceLabel before = label(ticket);
    EngineInstanceLabel after = label(address);
    resources.put(value(after), resources.remove(value(before)));
    EngineNode node = nodes.remove(ticket);
    node.setServiceInstance(after.getServiceInstance());
    node.setIdentifier(identifier);
    nodes.put(address, node);
    return after;
  }

  /** What the label's row has. */
  static String value(EngineInstanceLabel label) {
    return LabelManagerUtils.convertPersistenceLabel(label).getStringValue();
  }

  static EngineInstanceLabel label(String instance) {
    EngineInstanceLabel l = new EngineInstanceLabel();
    l.setServiceName("linkis-cg-engineconn");
    l.setInstance(instance);
    return l;
  }

  private static <T> T fake(Class<T> type, InvocationHandler handler) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, args) -> method.getDeclaringClass() == Object.class ? "fake" : handler.invoke(proxy, method, args)));
  }
}
