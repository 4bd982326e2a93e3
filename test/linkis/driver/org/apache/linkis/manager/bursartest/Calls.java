package org.apache.linkis.manager.bursartest;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.common.entity.enumeration.NodeStatus;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.entity.resource.YarnResource;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.engineplugin.common.resource.UserNodeResource;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;
import org.apache.linkis.manager.label.utils.EngineTypeLabelCreator;
import org.apache.linkis.manager.rm.ResultResource;
import org.apache.linkis.manager.rm.service.ResourceManager;

/** What the rest of LinkisManager asks of its ResourceManager for one engine, with the same labels. */
final class Calls {
  private static final String ENGINE = "linkis-cg-engineconn";

  private final ResourceManager resources;
  private final EngineStopService stop;

  Calls(ResourceManager resources, EngineStopService stop) {
    this.resources = resources;
    this.stop = stop;
  }

  /** What is asked for. */
  static final class Request {
    String user = "u0";
    String creator = "IDE";
    String engine = "shell";
    String ecm;
    String queue;
    String application = "";
    long memory = 1L << 30;
    int cores = 1;
    int queueCores = 1;
    long queueMemory = 1L << 30;
    long wait = 60_000;
    final Map<String, String> properties = new HashMap<>();
  }

  private static <L extends Label<?>> L label(Class<L> kind) {
    return LabelBuilderFactoryContext.getLabelBuilderFactory().createLabel(kind);
  }

  static EMInstanceLabel host(String ecm) {
    EMInstanceLabel label = label(EMInstanceLabel.class);
    label.setServiceName("linkis-cg-engineconnmanager");
    label.setInstance(ecm);
    return label;
  }

  private static List<Label<?>> labels(Request r) {
    UserCreatorLabel user = label(UserCreatorLabel.class);
    user.setUser(r.user);
    user.setCreator(r.creator);
    List<Label<?>> list = new ArrayList<>();
    list.add(user);
    list.add(EngineTypeLabelCreator.createEngineTypeLabel(r.engine));
    list.add(host(r.ecm));
    return list;
  }

  private static List<Label<?>> labels(Request r, String ticket) {
    EngineInstanceLabel engine = label(EngineInstanceLabel.class);
    engine.setServiceName(ENGINE);
    engine.setInstance(ticket);
    List<Label<?>> list = labels(r);
    list.add(engine);
    return list;
  }

  private static UserNodeResource resource(Request r) {
    UserNodeResource node = new UserNodeResource();
    node.setUser(r.user);
    Resource wanted = new LoadInstanceResource(r.memory, r.cores, 1);
    ResourceType type = ResourceType.LoadInstance;
    if (r.queue != null) {
      wanted = new DriverAndYarnResource(
          (LoadInstanceResource) wanted, new YarnResource(r.queueMemory, r.queueCores, 0, r.queue, r.application));
      type = ResourceType.DriverAndYarn;
    }
    node.setMinResource(wanted);
    node.setMaxResource(wanted);
    node.setResourceType(type);
    return node;
  }

  private static EngineCreateRequest creation(Request r) {
    EngineCreateRequest request = new EngineCreateRequest();
    request.setProperties(new HashMap<>(r.properties));
    request.setUser(r.user);
    request.setTimeout(r.wait);
    return request;
  }

  ResultResource request(Request r) {
    return resources.requestResource(labels(r), resource(r), creation(r), r.wait);
  }

  Object canRequest(Request r) {
    return resources.canRequestResource(labels(r), resource(r), creation(r));
  }

  void used(Request r, String ticket) {
    UserNodeResource reported = resource(r);
    if (r.queue != null) { // as engines with a part in a queue say it
      reported.setUsedResource(reported.getMinResource());
    }
    resources.resourceUsed(labels(r, ticket), reported);
  }

  void release(Request r, String ticket) {
    AMEngineNode engine = new AMEngineNode();
    ServiceInstance instance = new ServiceInstance();
    instance.setApplicationName(ENGINE);
    instance.setInstance(ticket);
    engine.setServiceInstance(instance);
    engine.setLabels(labels(r, ticket));
    engine.setNodeStatus(NodeStatus.Success);
    engine.setTicketId(ticket);
    stop.engineConnInfoClear(engine);
  }
}
