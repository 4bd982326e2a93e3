package io.github.bursar.linkis.projection;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.bursar.client.Allocation;
import io.github.bursar.linkis.mapping.LabelMapper;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.linkis.manager.label.builder.CombinedLabelBuilder;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactory;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;
import org.apache.linkis.manager.label.exception.LabelErrorException;

/** A user, a creator and an engine: what Linkis counts resources for. */
final class Combination {
  static final String LABEL_KEY = "combined_userCreator_engineType";
  private static final ObjectMapper JSON = new ObjectMapper();

  final String user;
  final String creator;
  final String engineType;
  final String engineVersion;

  private Combination(String user, String creator, String engineType, String engineVersion) {
    this.user = user;
    this.creator = creator;
    this.engineType = engineType;
    this.engineVersion = engineVersion;
  }

  /** Of an allocation; empty: it is not one of Linkis. */
  static Optional<Combination> of(Allocation a) {
    Map<String, String> l = a.labels();
    if (!LabelMapper.SYSTEM.equals(l.get(LabelMapper.SYSTEM_KEY))) {
      return Optional.empty();
    }
    return of(l.get("user"), l.get("creator"), l.get("engineType"), l.get("engineVersion"));
  }

  /** Of a label with a resource: {"creator":"IDE","user":"alice","engineType":"spark","version":"3.2.1"}. */
  static Optional<Combination> parse(String labelValue) {
    try {
      JsonNode n = JSON.readTree(labelValue);
      return of(text(n, "user"), text(n, "creator"), text(n, "engineType"), text(n, "version"));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  private static String text(JsonNode n, String field) {
    return n.path(field).asText(null);
  }

  private static Optional<Combination> of(String... names) {
    for (String name : names) {
      if (name == null || name.isEmpty()) {
        return Optional.empty();
      }
    }
    return Optional.of(new Combination(names[0], names[1], names[2], names[3]));
  }

  /** The value of a label, which is among others if it is none of its own; empty: it is not there. */
  String value(String key, Map<String, String> others) {
    switch (key) {
      case LabelMapper.SYSTEM_KEY:
        return LabelMapper.SYSTEM;
      case "user":
        return user;
      case "creator":
        return creator;
      case "engineType":
        return engineType;
      case "engineVersion":
        return engineVersion;
      default:
        return others.getOrDefault(key, "");
    }
  }

  Label<?> label() throws LabelErrorException {
    LabelBuilderFactory factory = LabelBuilderFactoryContext.getLabelBuilderFactory();
    UserCreatorLabel who = factory.createLabel(UserCreatorLabel.class);
    who.setUser(user);
    who.setCreator(creator);
    EngineTypeLabel engine = factory.createLabel(EngineTypeLabel.class);
    engine.setEngineType(engineType);
    engine.setVersion(engineVersion);
    return new CombinedLabelBuilder().build("", Arrays.<Label<?>>asList(who, engine));
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof Combination && toString().equals(o.toString());
  }

  @Override
  public int hashCode() {
    return Objects.hash(user, creator, engineType, engineVersion);
  }

  @Override
  public String toString() {
    return user + "-" + creator + "," + engineType + "-" + engineVersion;
  }
}
