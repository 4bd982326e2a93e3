package org.apache.linkis.manager.bursartest;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.linkis.manager.am.service.engine.EngineStopService;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.apache.linkis.manager.rm.service.ResourceManager;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.ApplicationListener;
import org.springframework.stereotype.Component;

/**
 * Drives the manager's own ResourceManager bean, in its process, by HTTP on loopback: GET /request, /can,
 * /used, /release for one engine, /run for a loop. Answers are JSON; what a call threw is in "error", with its class.
 */
@Component
public class Driver implements ApplicationListener<ApplicationReadyEvent> {
  /** What begins the name of a parameter that is a property of the request. */
  private static final String PROPERTY = "property.";

  private final ObjectMapper json = new ObjectMapper();
  @Autowired private ResourceManager resources;
  @Autowired private EngineStopService stop;
  private boolean started;

  private interface Command {
    Object run(Map<String, String> query) throws Exception;
  }

  @Override
  public synchronized void onApplicationEvent(ApplicationReadyEvent event) {
    if (started) {
      return;
    }
    started = true;
    Calls calls = new Calls(resources, stop);
    try {
      HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.getInteger("bursartest.port", 17479)), 0);
      server.setExecutor(Executors.newCachedThreadPool());
      serve(server, "/bean", query -> Collections.singletonMap("class", resources.getClass().getName()));
      serve(server, "/shadow", query -> attributes("io.github.bursar:type=Shadow"));
      serve(server, "/request", query -> answer(calls.request(request(query))));
      serve(server, "/can", query -> calls.canRequest(request(query)));
      serve(server, "/used", query -> {
        calls.used(request(query), query.get("ticket"));
        return Collections.emptyMap();
      });
      serve(server, "/release", query -> {
        calls.release(request(query), query.get("ticket"));
        return Collections.emptyMap();
      });
      serve(server, "/run", query -> new Loop(calls, request(query), (int) number(query, "threads", 1), (int) number(query, "users", 1),
          number(query, "seconds", 10), number(query, "hold", 0), number(query, "limit", Long.MAX_VALUE)).run());
      server.start();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private void serve(HttpServer server, String path, Command command) {
    server.createContext(path, (HttpExchange exchange) -> {
      Object answer;
      try {
        answer = command.run(query(exchange.getRequestURI().getRawQuery()));
      } catch (Throwable e) {
        Map<String, String> error = new LinkedHashMap<>();
        error.put("error", e.getClass().getName());
        error.put("message", String.valueOf(e.getMessage()));
        answer = error;
      }
      byte[] body = json.writeValueAsBytes(answer);
      exchange.sendResponseHeaders(200, body.length);
      exchange.getResponseBody().write(body);
      exchange.close();
    });
  }

  private static Map<String, String> query(String raw) throws Exception {
    Map<String, String> values = new HashMap<>();
    if (raw != null && !raw.isEmpty()) {
      for (String pair : raw.split("&")) {
        int at = pair.indexOf('=');
        values.put(pair.substring(0, at), URLDecoder.decode(pair.substring(at + 1), "UTF-8"));
      }
    }
    return values;
  }

  /** What a bean tells over JMX. */
  private static Map<String, Object> attributes(String name) throws Exception {
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    ObjectName bean = new ObjectName(name);
    Map<String, Object> values = new LinkedHashMap<>();
    for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
      values.put(attribute.getName(), beans.getAttribute(bean, attribute.getName()));
    }
    return values;
  }

  private static long number(Map<String, String> query, String name, long otherwise) {
    return query.containsKey(name) ? Long.parseLong(query.get(name)) : otherwise;
  }

  private static Calls.Request request(Map<String, String> query) {
    Calls.Request r = new Calls.Request();
    r.user = query.getOrDefault("user", r.user);
    r.creator = query.getOrDefault("creator", r.creator);
    r.engine = query.getOrDefault("engine", r.engine);
    r.ecm = query.get("ecm");
    r.queue = query.get("queue");
    r.application = query.getOrDefault("application", r.application);
    r.memory = number(query, "memory", r.memory);
    r.cores = (int) number(query, "cores", r.cores);
    r.queueMemory = number(query, "queueMemory", r.queueMemory);
    r.queueCores = (int) number(query, "queueCores", r.queueCores);
    r.wait = number(query, "wait", r.wait);
    query.forEach((name, value) -> {
      if (name.startsWith(PROPERTY)) {
        r.properties.put(name.substring(PROPERTY.length()), value);
      }
    });
    return r;
  }

  private static Map<String, String> answer(ResultResource result) {
    if (result instanceof AvailableResource) {
      return Collections.singletonMap("ticket", ((AvailableResource) result).ticketId());
    }
    return Collections.singletonMap("refused", String.valueOf(((NotEnoughResource) result).reason()));
  }
}
