package io.github.bursar.linkis.allocation;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.entity.persistence.ECResourceInfoRecord;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.dao.ECResourceRecordMapper;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.label.service.NodeLabelService;
import org.apache.linkis.manager.label.service.ResourceLabelService;
import org.apache.linkis.manager.persistence.NodeManagerPersistence;
import org.apache.linkis.manager.persistence.NodeMetricManagerPersistence;
import org.apache.linkis.manager.rm.service.impl.LabelResourceServiceImpl;
import org.apache.linkis.manager.rm.service.impl.ResourceLogService;

/** Linkis's rows in memory, below Linkis's own services: resources are stored as its JSON. */
final class FakeLinkis {
  final Map<String, PersistenceResource> resources = new ConcurrentHashMap<>();
  final Map<String, EngineNode> nodes = new ConcurrentHashMap<>();
  final Map<String, List<Label<?>>> nodeLabels = new ConcurrentHashMap<>();
  final Map<String, ECResourceInfoRecord> records = new ConcurrentHashMap<>();
  volatile Throwable addEngineNodeFails;
  volatile RuntimeException resourceFails;

  EngineRows rows() {
    EngineRows rows = new EngineRows();
    LabelResourceServiceImpl labelResources = new LabelResourceServiceImpl();
    labelResources.resourceLabelService_$eq(
        fake(
            ResourceLabelService.class,
            (proxy, method, args) -> {
              switch (method.getName()) {
                case "setResourceToLabel":
                case "setEngineConnResourceToLabel":
                  if (resourceFails != null) {
                    throw resourceFails;
                  }
                  put((Label<?>) args[0], (NodeResource) args[1]);
                  return null;
                case "getPersistenceResourceByLabel":
                  return resources.get(((Label<?>) args[0]).getStringValue());
                case "getResourceByLabel":
                  return ResourceUtils.fromPersistenceResource(resources.get(((Label<?>) args[0]).getStringValue()));
                case "removeResourceByLabel":
                  resources.remove(((Label<?>) args[0]).getStringValue());
                  return null;
                default:
                  throw new UnsupportedOperationException(method.toString());
              }
            }));
    rows.resources = labelResources;
    rows.nodes =
        fake(
            NodeManagerPersistence.class,
            (proxy, method, args) -> {
              switch (method.getName()) {
                case "addEngineNode":
                  if (addEngineNodeFails != null) {
                    throw addEngineNodeFails;
                  }
                  nodes.put(((EngineNode) args[0]).getServiceInstance().getInstance(), (EngineNode) args[0]);
                  return null;
                case "getEngineNode":
                  return nodes.get(((ServiceInstance) args[0]).getInstance());
                case "deleteEngineNode":
                  nodes.remove(((EngineNode) args[0]).getServiceInstance().getInstance());
                  return null;
                default:
                  throw new UnsupportedOperationException(method.toString());
              }
            });
    rows.nodeLabels =
        fake(
            NodeLabelService.class,
            (proxy, method, args) -> {
              String instance = ((ServiceInstance) args[0]).getInstance();
              if (method.getName().equals("addLabelToNode")) {
                nodeLabels.computeIfAbsent(instance, i -> new ArrayList<>()).add((Label<?>) args[1]);
              } else if (method.getName().equals("removeLabelsFromNode")) {
                nodeLabels.remove(instance);
              } else {
                throw new UnsupportedOperationException(method.toString());
              }
              return null;
            });
    rows.metrics = fake(NodeMetricManagerPersistence.class, (proxy, method, args) -> null);
    rows.record = new ResourceLogService();
    set(
        rows.record,
        "ecResourceRecordMapper",
        fake(
            ECResourceRecordMapper.class,
            (proxy, method, args) -> {
              switch (method.getName()) {
                case "getECResourceInfoRecord":
                  return records.get((String) args[0]);
                default:
                  records.put(((ECResourceInfoRecord) args[0]).getTicketId(), (ECResourceInfoRecord) args[0]);
                  return null;
              }
            }));
    return rows;
  }

  private void put(Label<?> label, NodeResource resource) {
    PersistenceResource old = resources.get(label.getStringValue());
    PersistenceResource p = ResourceUtils.toPersistenceResource(resource);
    p.setCreateTime(new Date());
    // As in Linkis's own: an engine's first row is under its ticket's name.
    if (old != null) {
      p.setTicketId(old.getTicketId());
    } else if (label instanceof EngineInstanceLabel) {
      p.setTicketId(((EngineInstanceLabel) label).getInstance());
    }
    resources.put(label.getStringValue(), p);
  }

  /** The engine says where it is: from then on its rows have that name. Returns its label. */
  EngineInstanceLabel started(String ticket, String address, String identifier) {
    EngineInstanceLabel before = label(ticket);
    EngineInstanceLabel after = label(address);
    resources.put(after.getStringValue(), resources.remove(before.getStringValue()));
    EngineNode node = nodes.remove(ticket);
    node.setServiceInstance(after.getServiceInstance());
    node.setIdentifier(identifier);
    nodes.put(address, node);
    return after;
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

  private static void set(Object o, String field, Object value) {
    try {
      Field f = o.getClass().getDeclaredField(field);
      f.setAccessible(true);
      f.set(o, value);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
